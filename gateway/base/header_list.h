/* header_list -- the values of headers that are lists: cookies, codings, extensions, Forwarded.
 *
 * Shape:    each call takes one member off the list, without the blanks around it; it may be empty.
 * Thread:   any.
 * Owns:     nothing: members point into the list.
 */
#ifndef GATEWAY_BASE_HEADER_LIST_H
#define GATEWAY_BASE_HEADER_LIST_H

#include "proto/base.h"

/* The first member.  A list with nothing left gives empty members. */
struct str header_list_next(struct str *list, char separator);
/* The same, but separators inside quotes do not count (RFC 9110 section 5.6.6). */
struct str header_list_next_quoted(struct str *list, char separator);
/* The last one. */
struct str header_list_last(struct str *list, char separator);

#endif
