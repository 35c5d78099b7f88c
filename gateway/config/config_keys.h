/* config_keys -- the table of all configuration keys.  Internal to gateway/config*.c.
 *
 * Shape:    a tree: a table holds the keys of one object; groups and lists point to their own
 *           table.  Offsets in a group's table count from struct config, in a list's from its
 *           element.  To add a key: a member in config.h, a row here and, if it depends on another
 *           key, a rule in config_check.c.
 * Thread:   any.
 */
#ifndef GATEWAY_CONFIG_CONFIG_KEYS_H
#define GATEWAY_CONFIG_CONFIG_KEYS_H

#include "gateway/config/config.h"

enum key_type {
    KEY_INT,     /* uint32_t or uint64_t */
    KEY_BOOL,    /* bool */
    KEY_CHOICE,  /* uint32_t: index in choices */
    KEY_TEXT,    /* char * */
    KEY_URL,     /* char *; the part before an @ is a secret */
    KEY_TEXTS,   /* struct config_texts, from a list of texts */
    KEY_ENV,     /* struct config_texts of "KEY=value", from an object; values are secrets */
    KEY_HEADERS, /* the same with "Name: value": header fields of HTTP */
    KEY_GROUP,   /* an object; its keys are members of struct config */
    KEY_LIST,    /* a list of objects: a pointer, and a size_t at count_offset */
};

struct key {
    const char *name;
    const char *doc;
    enum key_type type;
    bool required;
    uint32_t offset;
    uint32_t count_offset; /* LIST: of the number; BOOL: of a bool that says it was set; 0: none */
    uint32_t size;         /* INT: of the member; LIST: of an element */
    int64_t min, max;      /* INT: value; TEXT: bytes; TEXTS, LIST: entries */
    int64_t number;        /* default of INT, BOOL, CHOICE */
    const char *text;      /* default of TEXT; NULL for none */
    const char *computed;  /* describes the default when it is computed */
    const char *const *choices; /* followed by a NULL */
    const struct key_table *table;
};

struct key_table {
    const struct key *keys;
    size_t n;
};

extern const struct key_table config_table;

/* The member in the struct that base points to. */
static inline void *key_member(const struct key *key, void *base)
{
    return (char *)base + key->offset;
}

const struct key *key_find(const struct key_table *table, const char *name);
/* Index in choices, -1 when it is not among them. */
int key_choice(const char *const *choices, const char *text);
/* Appends the path of the known key that is most similar to an unknown one of table; false: none
 * is. */
bool key_put_nearest(const struct key_table *table, const char *name, struct buf *out);
/* Appends "an integer from 1 to 100000": what a value must be. */
void key_put_wanted(const struct key *key, struct buf *out);
void key_put_number(const struct key *key, void *base, int64_t number); /* INT, BOOL, CHOICE */
int64_t key_number(const struct key *key, const void *base);

/* Fills in the defaults of a zeroed struct; keys_free frees everything that its keys own. */
void keys_set_defaults(const struct key_table *table, void *base);
void keys_free(const struct key_table *table, void *base);

/* Collects faults. */
struct faults {
    struct buf *out;
    int n;
};
void fault(struct faults *f, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* config_read.c: reads a file's values into a struct with defaults; false when it holds no JSON
 * object.  config_check.c: checks the rest. */
bool config_read(const char *file, struct config *c, struct faults *f) MUST_USE;
void config_check(struct config *c, const struct config_flags *flags, struct faults *f);

#endif
