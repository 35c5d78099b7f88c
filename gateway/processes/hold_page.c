#include "gateway/processes/hold_page.h"

#include <stdio.h>

#define MAX_PLACE (UINT64_MAX / 4) /* no sum of two places overflows */

_Static_assert(offsetof(struct hold_page, out_base) == 48, "frozen by version");
_Static_assert(offsetof(struct hold_page, lines) == 72, "frozen by version");
_Static_assert(offsetof(struct hold_page, in_ended) == 1608, "frozen by version");
_Static_assert(offsetof(struct hold_page, tail) == 1632, "frozen by version");
_Static_assert(offsetof(struct hold_page, from_out) == 5728, "frozen by version");
_Static_assert(sizeof(struct hold_page) <= HOLD_PAGE_BYTES, "it is mapped whole");

void hold_page_init(struct hold_page *page, const char *digest)
{
    page->magic = HOLD_MAGIC;
    page->version = HOLD_VERSION;
    snprintf(page->digest, sizeof page->digest, "%s", digest);
}

#define KNOWN (HOLD_LINES - 1)

static uint64_t oldest_line(const struct hold_page *page)
{
    return page->n_lines > KNOWN ? page->n_lines - KNOWN : 0;
}

static const struct hold_line *line_at(const struct hold_page *page, uint64_t i)
{
    return &page->lines[i % HOLD_LINES];
}

static bool lines_are_sound(const struct hold_page *page, uint64_t in_bytes)
{
    const struct hold_line *before = NULL;
    for (uint64_t i = oldest_line(page); i < page->n_lines; i++) {
        const struct hold_line *line = line_at(page, i);
        if (line->end > in_bytes || line->said & ~(uint64_t)(HOLD_SAID_RUN | HOLD_SAID_CANCEL))
            return false;
        if (before && (line->number < before->number || line->end < before->end ||
                       (before->said & ~line->said)))
            return false;
        before = line;
    }
    return true;
}

bool hold_page_is_sound(const struct hold_page *page, uint64_t in_bytes, uint64_t in_position)
{
    return page->magic == HOLD_MAGIC && page->version == HOLD_VERSION &&
           memchr(page->digest, 0, sizeof page->digest) && page->out_base <= MAX_PLACE &&
           page->out_next >= page->out_base && page->out_next <= MAX_PLACE &&
           page->n_lines <= MAX_PLACE && page->tail_bytes <= HOLD_TAIL && in_bytes <= MAX_PLACE &&
           page->from_out <= MAX_PLACE && page->from_line <= hold_page_newest(page).number &&
           lines_are_sound(page, in_bytes) && in_position <= hold_page_newest(page).end;
}

struct hold_line hold_page_newest(const struct hold_page *page)
{
    return page->n_lines ? *line_at(page, page->n_lines - 1) : (struct hold_line){0};
}

bool hold_page_has_told(const struct hold_page *page, uint64_t number, uint64_t in_position)
{
    uint64_t oldest = oldest_line(page);
    for (uint64_t i = oldest; i < page->n_lines; i++) {
        const struct hold_line *line = line_at(page, i);
        if (line->number < number)
            continue;
        bool driven_out = i == oldest && i > 0 && line->number > number;
        return driven_out || line->end <= in_position;
    }
    return false;
}

uint64_t hold_page_told(const struct hold_page *page, uint64_t in_position)
{
    uint64_t number = 0;
    for (uint64_t i = oldest_line(page); i < page->n_lines; i++)
        if (line_at(page, i)->end <= in_position)
            number = line_at(page, i)->number;
    return number;
}

bool hold_page_has_room(const struct hold_page *page, uint64_t in_position)
{
    if (page->n_lines >= MAX_PLACE)
        return false;
    return page->n_lines < KNOWN || line_at(page, page->n_lines - KNOWN)->end <= in_position;
}

void hold_page_put(struct hold_page *page, const struct hold_line *line)
{
    page->lines[page->n_lines % HOLD_LINES] = *line;
    __atomic_store_n(&page->n_lines, page->n_lines + 1, __ATOMIC_SEQ_CST);
}

void hold_page_report(struct hold_page *page, int error, int status)
{
    page->error = error;
    page->status = status;
    hold_page_set(&page->reported);
}

void hold_page_set(uint32_t *flag)
{
    __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
}

void hold_page_clear(uint32_t *flag)
{
    __atomic_store_n(flag, 0, __ATOMIC_SEQ_CST);
}

bool hold_page_is_set(const uint32_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_SEQ_CST) != 0;
}
