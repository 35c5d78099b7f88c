/* Members of the configuration by their keys: set, read, freed; and faults, collected. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/config/config_keys.h"

/* --- values ----------------------------------------------------------------------------------- */

void key_put_wanted(const struct key *key, struct buf *out)
{
    switch (key->type) {
    case KEY_INT:
        buf_putf(out, "an integer from %lld to %lld", (long long)key->min, (long long)key->max);
        return;
    case KEY_BOOL: buf_puts(out, "true or false"); return;
    case KEY_CHOICE:
        buf_puts(out, "one of ");
        for (int i = 0; key->choices[i]; i++)
            buf_putf(out, "%s\"%s\"", i ? ", " : "", key->choices[i]);
        return;
    case KEY_TEXT:
    case KEY_URL:
        buf_putf(out, "a text of %lld to %lld bytes", (long long)key->min, (long long)key->max);
        return;
    case KEY_TEXTS: buf_putf(out, "a list of at most %lld texts", (long long)key->max); return;
    case KEY_ENV:
    case KEY_HEADERS: buf_putf(out, "an object of at most %lld texts", (long long)key->max); return;
    case KEY_GROUP: buf_puts(out, "an object"); return;
    case KEY_LIST: buf_putf(out, "a list of at most %lld objects", (long long)key->max); return;
    }
    UNREACHABLE();
}

void key_put_number(const struct key *key, void *base, int64_t number)
{
    void *member = key_member(key, base);

    if (key->type == KEY_BOOL)
        *(bool *)member = number != 0;
    else if (key->type == KEY_INT && key->size == sizeof(uint64_t))
        *(uint64_t *)member = (uint64_t)number;
    else
        *(uint32_t *)member = (uint32_t)number;
}

int64_t key_number(const struct key *key, const void *base)
{
    const void *member = (const char *)base + key->offset;

    if (key->type == KEY_BOOL)
        return *(const bool *)member;
    if (key->type == KEY_INT && key->size == sizeof(uint64_t))
        return (int64_t) * (const uint64_t *)member;
    return *(const uint32_t *)member;
}

void keys_set_defaults(const struct key_table *table, void *base)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct key *key = &table->keys[i];
        switch (key->type) {
        case KEY_INT:
        case KEY_BOOL:
        case KEY_CHOICE: key_put_number(key, base, key->number); break;
        case KEY_TEXT:
        case KEY_URL: *(char **)key_member(key, base) = xstrdup(str_of(key->text)); break;
        case KEY_GROUP: keys_set_defaults(key->table, base); break;
        case KEY_TEXTS:
        case KEY_ENV:
        case KEY_HEADERS:
        case KEY_LIST: break;
        }
    }
}

static void free_list(const struct key *key, void *base)
{
    char *elements = *(char **)key_member(key, base);
    size_t n = *(size_t *)(void *)((char *)base + key->count_offset);

    for (size_t i = 0; i < n; i++)
        keys_free(key->table, elements + i * key->size);
    free(elements);
}

static void free_texts(struct config_texts *texts)
{
    for (size_t i = 0; i < texts->n; i++)
        free(texts->list[i]);
    free(texts->list);
}

void keys_free(const struct key_table *table, void *base)
{
    for (size_t i = 0; i < table->n; i++) {
        const struct key *key = &table->keys[i];
        switch (key->type) {
        case KEY_TEXT:
        case KEY_URL: free(*(char **)key_member(key, base)); break;
        case KEY_TEXTS:
        case KEY_ENV:
        case KEY_HEADERS: free_texts(key_member(key, base)); break;
        case KEY_GROUP: keys_free(key->table, base); break;
        case KEY_LIST: free_list(key, base); break;
        case KEY_INT:
        case KEY_BOOL:
        case KEY_CHOICE: break;
        }
    }
}

/* --- faults ----------------------------------------------------------------------------------- */

void fault(struct faults *f, const char *path, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buf_putf(f->out, "%s: %s\n", path, text);
    f->n++;
}
