/* search -- what is searched for in texts, and where it is found (PROTOCOL.md section 5).
 *
 * Shape:    a query is words and quoted parts; a text has it when it has all of them.  Letters of
 *           either case are equal, by Unicode's simple case folding.  A part of three characters or
 *           more is found anywhere, a shorter one only where a word begins; in scripts without
 *           blanks between words that is everywhere.  Each store asks this, so they agree.
 * Units:    characters are code points.
 * Thread:   any; one struct search at a time.
 * Owns:     scratch memory, which search_done frees.
 */
#ifndef PROTO_SEARCH_H
#define PROTO_SEARCH_H

#include "proto/buf.h"
#include "proto/limits.h"

#define SEARCH_PARTS 32   /* of one query; further ones are not looked for */
#define SEARCH_WHOLE 3    /* characters, from which on a part is found inside a word too */
#define SEARCH_SHOWN 160  /* characters of a text that is shown … */
#define SEARCH_BEFORE 40  /* … of which at most so many stand before the first that was found */
#define SEARCH_MATCHES 32 /* that are marked in it */

struct search {
    uint32_t chars[MAX_SEARCH]; /* folded */
    struct {
        size_t from, n;
    } parts[SEARCH_PARTS];
    size_t n_parts;
    struct buf folded; /* scratch: the text's characters */
};

/* False: there is nothing to look for. */
bool search_read(struct str query, struct search *ret) MUST_USE;
void search_done(struct search *s);
bool search_finds(struct search *s, struct str text);
/* Appends the members text and matches: a piece of the text around what was found first, of whole
 * words unless one is longer than SEARCH_BEFORE, and [[at,n],…], what was found in it. */
void search_put(struct search *s, struct str text, struct buf *out);
/* The same without the text, for one that is shown whole. */
void search_put_matches(struct search *s, struct str text, struct buf *out);

#endif
