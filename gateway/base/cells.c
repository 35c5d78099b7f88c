/* A cell is told from malloc's memory by its address: all sheets lie in one range, which is
 * reserved at the first use and costs nothing but addresses. */
#include "gateway/base/cells.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "core/list.h"

#ifndef __has_feature /* clang's equivalent of gcc's __SANITIZE_ADDRESS__ */
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define USES_CELLS false /* all is malloc's, so that the sanitizer sees each of them */
#else
#define USES_CELLS true
#endif

#define SHEET_BYTES 65536
#define RANGE_SHEETS 262144
#define RANGE_BYTES ((size_t)RANGE_SHEETS * SHEET_BYTES)
#define UNIT 8

struct cell {
    struct cell *next; /* free */
};

/* Lies at the beginning of its own memory. */
struct sheet {
    struct list node; /* of those of its size that have room */
    struct cell *free;
    uint32_t size, n_used;
    uint32_t fresh; /* the offset of the cells that were never used, and not touched */
};

static char *range;                    /* NULL: not reserved */
static size_t range_used;              /* bytes of it that ever were a sheet's */
static uint32_t free_at[RANGE_SHEETS]; /* the places of sheets that were given back */
static size_t n_sheets, n_free;
static struct list with_room[CELL_MOST / UNIT + 1];

static bool open_range(void)
{
    static bool tried;
    if (tried || !USES_CELLS)
        return range;
    tried = true;
    for (size_t i = 0; i < countof(with_room); i++)
        list_init(&with_room[i]);
    char *raw = mmap(NULL, RANGE_BYTES + SHEET_BYTES, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        return false;
    /* Many pages are never touched: those of buffers that are not used (front.c). */
    (void)madvise(raw, RANGE_BYTES + SHEET_BYTES, MADV_NOHUGEPAGE);
    range = raw + -(uintptr_t)raw % SHEET_BYTES; /* a cell's sheet is found by its address */
    return true;
}

static bool is_cell(const void *p)
{
    return range && (uintptr_t)p - (uintptr_t)range < RANGE_BYTES;
}

static struct sheet *sheet_of(void *cell)
{
    return (struct sheet *)(void *)((char *)cell - (uintptr_t)cell % SHEET_BYTES);
}

/* The place of a sheet that was never used, or was given back; NULL: there is none. */
static void *find_sheet(void)
{
    if (n_free > 0)
        return range + (size_t)free_at[--n_free] * SHEET_BYTES;
    char *place = range + range_used;
    if (range_used + SHEET_BYTES > RANGE_BYTES ||
        mprotect(place, SHEET_BYTES, PROT_READ | PROT_WRITE) < 0)
        return NULL;
    range_used += SHEET_BYTES;
    return place;
}

static struct sheet *sheet_new(uint32_t size)
{
    struct sheet *s = find_sheet();
    if (!s)
        return NULL;
    *s = (struct sheet){.size = size, .fresh = (sizeof *s + 15) / 16 * 16};
    list_push(&with_room[size / UNIT], &s->node);
    n_sheets++;
    return s;
}

/* Its memory goes, and its address stays ours. */
static void sheet_free(struct sheet *s)
{
    list_remove(&s->node);
    n_sheets--;
    (void)madvise(s, SHEET_BYTES, MADV_DONTNEED);
    free_at[n_free++] = (uint32_t)(((char *)s - range) / SHEET_BYTES);
}

static void *cell_take(size_t size)
{
    if (size > CELL_MOST || !open_range())
        return NULL;
    uint32_t whole = (uint32_t)((size + UNIT - 1) / UNIT * UNIT);
    struct list *rooms = &with_room[whole / UNIT];
    struct sheet *s =
        list_is_empty(rooms) ? sheet_new(whole) : list_item(rooms->next, struct sheet, node);
    if (!s)
        return NULL;
    struct cell *cell = s->free;
    if (cell) {
        s->free = cell->next;
    } else {
        cell = (struct cell *)(void *)((char *)s + s->fresh);
        s->fresh += whole;
    }
    s->n_used++;
    if (!s->free && s->fresh + whole > SHEET_BYTES)
        list_remove(&s->node);
    return cell;
}

static void cell_give_back(struct cell *cell)
{
    struct sheet *s = sheet_of(cell);
    struct list *rooms = &with_room[s->size / UNIT];
    cell->next = s->free;
    s->free = cell;
    s->n_used--;
    if (!list_is_in(&s->node))
        list_push_front(rooms, &s->node);
    else if (s->n_used == 0 && !list_is_single(rooms))
        sheet_free(s);
}

void *cell_new(size_t size)
{
    void *cell = cell_take(size > 0 ? size : 1);
    return cell ? cell : try_alloc(size);
}

void cell_free(void *cell)
{
    if (is_cell(cell))
        cell_give_back(cell);
    else
        free(cell);
}

void *cell_resize(void *cell, size_t size)
{
    if (cell && !is_cell(cell))
        return try_realloc(cell, size);
    void *other = cell_new(size);
    if (!cell || !other)
        return other;
    size_t had = sheet_of(cell)->size;
    memcpy(other, cell, had < size ? had : size);
    cell_free(cell);
    return other;
}

size_t cells_bytes(void)
{
    return n_sheets * SHEET_BYTES;
}
