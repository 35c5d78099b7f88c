/* Design.  One walk over the JSON, guided by the table: an object's members are looked up by name,
 * and each value is read as its key's type says.  The path to the current value grows and shrinks
 * with the walk, so that every fault can name it.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/config/config_keys.h"

struct reader {
    struct faults *faults;
    struct buf path;
};

/* --- the path --------------------------------------------------------------------------------- */

/* A member's name may be anything: this shows its first characters, without controls. */
static void push_name(struct reader *r, const char *name)
{
    if (r->path.len > 0)
        buf_putc(&r->path, '.');
    for (size_t n = utf8_cut(str_of(name), 64); n > 0; n--, name++)
        buf_putc(&r->path, (unsigned char)*name < ' ' || *name == 0x7f ? '?' : *name);
}

static void pop(struct reader *r, size_t len)
{
    r->path.len = len;
    if (r->path.bytes)
        r->path.bytes[len] = '\0';
}

static const char *path_of(const struct reader *r)
{
    return r->path.len > 0 ? r->path.bytes : "configuration";
}

static void fault_wanted(struct reader *r, const struct key *key)
{
    struct buf wanted = {0};

    key_put_wanted(key, &wanted);
    fault(r->faults, path_of(r), "must be %s", wanted.bytes);
    buf_done(&wanted);
}

/* --- values ----------------------------------------------------------------------------------- */

static void config_read_object(struct reader *r, const struct key_table *table, void *base,
                               const json_t *object);

static void config_read_number(struct reader *r, const struct key *key, void *base,
                               const json_t *value)
{
    int64_t number = key->min - 1;

    if (key->type == KEY_BOOL && json_is_boolean(value))
        number = json_is_true(value);
    else if (key->type == KEY_CHOICE && json_is_string(value))
        number = key_choice(key->choices, json_string_value(value));
    else if (key->type == KEY_INT && json_is_integer(value) &&
             json_integer_value(value) <= key->max)
        number = json_integer_value(value);
    if (number < key->min) {
        fault_wanted(r, key);
        return;
    }
    key_put_number(key, base, number);
    if (key->type == KEY_BOOL && key->count_offset)
        *(bool *)((char *)base + key->count_offset) = true;
}

static void config_read_text(struct reader *r, const struct key *key, void *base,
                             const json_t *value)
{
    char **member = key_member(key, base);
    int64_t n = (int64_t)json_string_length(value);

    if (!json_is_string(value) || n < key->min || n > key->max) {
        fault_wanted(r, key);
        return;
    }
    free(*member);
    *member = xstrdup(str_of(json_string_value(value)));
}

static void texts_open(struct config_texts *texts, size_t n)
{
    if (n > 0)
        texts->list = xcalloc((n + 1) * sizeof *texts->list);
}

static void read_texts(struct reader *r, const struct key *key, void *base, const json_t *value)
{
    struct config_texts *texts = key_member(key, base);
    size_t n = json_array_size(value), len = r->path.len;

    if (!json_is_array(value) || (int64_t)n > key->max) {
        fault_wanted(r, key);
        return;
    }
    texts_open(texts, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(value, i);
        buf_putf(&r->path, "[%zu]", i);
        if (!json_is_string(text))
            fault(r->faults, path_of(r), "must be a text");
        else
            texts->list[texts->n++] = xstrdup(str_of(json_string_value(text)));
        pop(r, len);
    }
}

static bool is_variable(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

    return *name && strchr(letters, *name) &&
           name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789")] ==
               '\0';
}

/* RFC 9110: a token. */
static bool is_header(const char *name)
{
    for (const char *p = name; *p; p++)
        if (*p <= ' ' || *p >= 0x7f || strchr("()<>@,;:\\\"/[]?={}", *p))
            return false;
    return *name;
}

static bool is_header_value(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if ((*p < ' ' && *p != '\t') || *p == 0x7f)
            return false;
    return *text;
}

/* The fault of a pair; NULL: none. */
static const char *fault_of_pair(const struct key *key, const char *name, const json_t *text)
{
    if (key->type == KEY_ENV && !is_variable(name))
        return "is not a valid name of an environment variable";
    if (key->type == KEY_HEADERS && !is_header(name))
        return "is not a valid header name";
    if (!json_is_string(text))
        return "must be a text";
    if (key->type == KEY_HEADERS && !is_header_value(json_string_value(text)))
        return "must be a text of one line";
    return NULL;
}

/* An object into "KEY=value" or "Name: value". */
static void read_pairs(struct reader *r, const struct key *key, void *base, const json_t *value)
{
    struct config_texts *texts = key_member(key, base);
    const char *border = key->type == KEY_ENV ? "=" : ": ";
    size_t len = r->path.len;
    const char *name;
    json_t *text;

    if (!json_is_object(value) || (int64_t)json_object_size(value) > key->max) {
        fault_wanted(r, key);
        return;
    }
    texts_open(texts, json_object_size(value));
    json_object_foreach((json_t *)value, name, text)
    {
        push_name(r, name);
        const char *why = fault_of_pair(key, name, text);
        if (why) {
            fault(r->faults, path_of(r), "%s", why);
        } else {
            struct buf both = {0};
            buf_putf(&both, "%s%s%s", name, border, json_string_value(text));
            texts->list[texts->n++] = buf_take(&both);
        }
        pop(r, len);
    }
}

static void read_list(struct reader *r, const struct key *key, void *base, const json_t *value)
{
    size_t n = json_array_size(value), len = r->path.len;

    if (!json_is_array(value) || (int64_t)n > key->max) {
        fault_wanted(r, key);
        return;
    }
    if (n == 0)
        return;
    char *elements = xcalloc(n * key->size);
    *(char **)key_member(key, base) = elements;
    *(size_t *)(void *)((char *)base + key->count_offset) = n;
    for (size_t i = 0; i < n; i++) {
        buf_putf(&r->path, "[%zu]", i);
        keys_set_defaults(key->table, elements + i * key->size);
        config_read_object(r, key->table, elements + i * key->size, json_array_get(value, i));
        pop(r, len);
    }
}

static void read_value(struct reader *r, const struct key *key, void *base, const json_t *value)
{
    switch (key->type) {
    case KEY_INT:
    case KEY_BOOL:
    case KEY_CHOICE: config_read_number(r, key, base, value); return;
    case KEY_TEXT:
    case KEY_URL: config_read_text(r, key, base, value); return;
    case KEY_TEXTS: read_texts(r, key, base, value); return;
    case KEY_ENV:
    case KEY_HEADERS: read_pairs(r, key, base, value); return;
    case KEY_GROUP: config_read_object(r, key->table, base, value); return;
    case KEY_LIST: read_list(r, key, base, value); return;
    }
    UNREACHABLE();
}

/* --- objects ---------------------------------------------------------------------------------- */

static void fault_unknown(struct reader *r, const struct key_table *table, const char *name)
{
    struct buf nearest = {0};

    if (key_put_nearest(table, name, &nearest))
        fault(r->faults, path_of(r), "unknown key; the nearest one is %s", nearest.bytes);
    else
        fault(r->faults, path_of(r), "unknown key; holdfast keys lists all");
    buf_done(&nearest);
}

static void check_required(struct reader *r, const struct key_table *table, const json_t *object)
{
    size_t len = r->path.len;

    for (size_t i = 0; i < table->n; i++) {
        if (!table->keys[i].required || json_object_get(object, table->keys[i].name))
            continue;
        push_name(r, table->keys[i].name);
        fault(r->faults, path_of(r), "is missing");
        pop(r, len);
    }
}

static void config_read_object(struct reader *r, const struct key_table *table, void *base,
                               const json_t *object)
{
    size_t len = r->path.len;
    const char *name;
    json_t *value;

    if (!json_is_object(object)) {
        fault(r->faults, path_of(r), "must be an object");
        return;
    }
    json_object_foreach((json_t *)object, name, value)
    {
        const struct key *key = key_find(table, name);
        push_name(r, name);
        if (key)
            read_value(r, key, base, value);
        else
            fault_unknown(r, table, name);
        pop(r, len);
    }
    check_required(r, table, object);
}

/* --- the file --------------------------------------------------------------------------------- */

/* The file as JSON: a comment reads as blanks, so that lines and columns in faults stay right. */
struct plain_file {
    FILE *stream;
    enum { IN_JSON, IN_STRING, IN_LINE_COMMENT, IN_BLOCK_COMMENT } in;
    bool is_escaped; /* the previous character was a backslash in a string */
};

static bool plain_follows(struct plain_file *p, char wanted)
{
    int c = getc(p->stream);
    if (c != wanted && c != EOF)
        ungetc(c, p->stream);
    return c == wanted;
}

/* Two blanks replace a comment's first two characters, and its last two; skipped has the second. */
static int plain_next(struct plain_file *p, int *skipped)
{
    int c = getc(p->stream);
    switch (p->in) {
    case IN_STRING:
        if (c == '"' && !p->is_escaped)
            p->in = IN_JSON;
        p->is_escaped = c == '\\' && !p->is_escaped;
        return c;
    case IN_JSON:
        if (c == '"')
            p->in = IN_STRING;
        if (c != '/')
            return c;
        if (plain_follows(p, '/'))
            p->in = IN_LINE_COMMENT;
        else if (plain_follows(p, '*'))
            p->in = IN_BLOCK_COMMENT;
        else
            return c;
        return *skipped = ' ';
    case IN_LINE_COMMENT:
        if (c == '\n')
            p->in = IN_JSON;
        break;
    case IN_BLOCK_COMMENT:
        if (c == '*' && plain_follows(p, '/')) {
            p->in = IN_JSON;
            return *skipped = ' ';
        }
        break;
    }
    return c == EOF || c == '\n' ? c : ' ';
}

static size_t plain_read(void *bytes, size_t room, void *arg)
{
    struct plain_file *p = arg;
    char *to = bytes;
    size_t n = 0;
    while (n + 2 <= room) {
        int skipped = 0, c = plain_next(p, &skipped);
        if (c == EOF)
            break;
        to[n++] = (char)c;
        if (skipped)
            to[n++] = (char)skipped;
    }
    return n;
}

/* jansson's text quotes what it found, which may be a secret: "… near 'x'" is cut off. */
static json_t *load_json(const char *file, struct faults *f)
{
    json_error_t error;
    json_t *root = NULL;
    struct plain_file plain = {.stream = fopen(file, "re")};

    if (plain.stream)
        root = json_load_callback(plain_read, &plain, JSON_REJECT_DUPLICATES, &error);
    if (!plain.stream || (!root && ferror(plain.stream))) {
        fault(f, file, "cannot be read: %s", strerror(errno));
    } else if (plain.in == IN_BLOCK_COMMENT) {
        fault(f, file, "a comment is not closed: */ is missing");
        json_decref(root);
        root = NULL;
    } else if (!root) {
        char *quote = strstr(error.text, " near ");
        if (quote)
            *quote = '\0';
        fault(f, file, "line %d, column %d: %s", error.line, error.column, error.text);
    }
    if (plain.stream)
        (void)fclose(plain.stream);
    return root;
}

bool config_read(const char *file, struct config *c, struct faults *f)
{
    struct reader r = {.faults = f};
    json_t *root = load_json(file, f);
    bool is_object = json_is_object(root);

    if (!root)
        return false;
    config_read_object(&r, &config_table, c, root);
    json_decref(root);
    buf_done(&r.path);
    return is_object;
}
