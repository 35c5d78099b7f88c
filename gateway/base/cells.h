/* cells -- memory for what each connection has one of.
 *
 * Shape:    sheets of 64 KiB, cut into cells of one size each, side by side.  malloc would add 8 to
 *           23 bytes to each, and what comes and goes between them (a request, a reply, a head)
 *           would leave holes: a tenth of an idle connection (bench/README.md, `idle`).
 * Thread:   loop.  There is one for the process, like malloc.
 * Owns:     the sheets; one without a cell in use goes back to the system, unless it is the last of
 *           its size with room.
 * Errors:   NULL when there is no memory.
 */
#ifndef GATEWAY_BASE_CELLS_H
#define GATEWAY_BASE_CELLS_H

#include "proto/base.h"

/* Bytes: anything larger comes from malloc, and so does all when a sheet cannot be had. */
#define CELL_MOST 1024

void *cell_new(size_t size) MUST_USE;
/* Like realloc, which leaves the old one when it fails; NULL: a new one. */
void *cell_resize(void *cell, size_t size) MUST_USE;
void cell_free(void *cell); /* NULL is allowed */
/* How much all sheets together have from the system. */
size_t cells_bytes(void);

#endif
