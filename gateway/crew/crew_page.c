#include "gateway/crew/crew_page.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/str.h"

#define TEXT_MOST (1u << 20) /* of a member; pages that nobody writes cost nothing */
#define TRIES 100            /* to read a text that is being written */

#define MORE 4 /* sockets than another one has are no reason to wait for that */

struct slab {
    _Atomic uint32_t sockets; /* as crew_page_count has it */
    _Atomic uint64_t turn;    /* odd while it is written */
    size_t len;
    char text[TEXT_MOST];
};

struct crew_page {
    unsigned n;
    struct slab slabs[];
};

void crew_page_count(struct crew_page *page, unsigned member, uint32_t sockets)
{
    atomic_store_explicit(&page->slabs[member].sockets, sockets, memory_order_relaxed);
}

bool crew_page_is_ahead(const struct crew_page *page, unsigned member, uint32_t sockets)
{
    for (unsigned i = 0; i < page->n; i++) {
        uint32_t other = atomic_load_explicit(&page->slabs[i].sockets, memory_order_relaxed);
        if (i != member && other < sockets && sockets - other > MORE)
            return true;
    }
    return false;
}

bool crew_page_others_accept(const struct crew_page *page, unsigned member)
{
    for (unsigned i = 0; i < page->n; i++)
        if (i != member && atomic_load_explicit(&page->slabs[i].sockets, memory_order_relaxed) !=
                               CREW_ACCEPTS_NONE)
            return true;
    return false;
}

struct crew_page *crew_page_new(unsigned members)
{
    struct crew_page *page =
        mmap(NULL, sizeof *page + members * sizeof *page->slabs, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    page->n = members;
    for (unsigned i = 0; i < members; i++)
        crew_page_count(page, i, CREW_ACCEPTS_NONE);
    return page;
}

/* A sequence lock.  The turn is exchanged, and read again by adding nothing, because a load or a
 * store alone does not keep the text on its side.  A member that died in the middle left an odd
 * number. */
void crew_page_put(struct crew_page *page, unsigned member, struct str text)
{
    struct slab *s = &page->slabs[member];
    uint64_t turn = atomic_load_explicit(&s->turn, memory_order_relaxed) | 1;
    (void)atomic_exchange_explicit(&s->turn, turn, memory_order_acq_rel);
    s->len = text.n <= TEXT_MOST ? text.n : 0;
    memcpy(s->text, text.p, s->len);
    atomic_store_explicit(&s->turn, turn + 1, memory_order_release);
}

void crew_page_clear(struct crew_page *page, unsigned member)
{
    crew_page_put(page, member, STR(""));
    crew_page_count(page, member, CREW_ACCEPTS_NONE);
}

static void copy_text(struct slab *s, struct buf *out)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t turn = atomic_load_explicit(&s->turn, memory_order_acquire);
        size_t n = s->len;
        buf_clear(out);
        if (turn & 1 || n > TEXT_MOST)
            continue;
        buf_putstr(out, (struct str){s->text, n});
        if (atomic_fetch_add_explicit(&s->turn, 0, memory_order_acq_rel) == turn)
            return;
    }
    buf_clear(out);
}

/* --- families --------------------------------------------------------------------------------- */

struct family {
    struct str head, name; /* "# HELP NAME …" and "# TYPE …" */
    struct buf samples;
};

struct families {
    struct family *all;
    size_t n;
};

static struct str take_line(struct str *text)
{
    const char *end = text->n ? memchr(text->p, '\n', text->n) : NULL;
    struct str line = {text->p, end ? (size_t)(end - text->p) + 1 : text->n};
    *text = str_from(*text, line.n);
    return line;
}

static struct str name_in(struct str head)
{
    struct str rest = str_from(head, strlen("# HELP "));
    const char *end = memchr(rest.p, ' ', rest.n);
    return (struct str){rest.p, end ? (size_t)(end - rest.p) : rest.n};
}

static struct family *family_of(struct families *f, struct str head)
{
    struct str name = name_in(head);
    for (size_t i = 0; i < f->n; i++)
        if (str_eq(f->all[i].name, name))
            return &f->all[i];
    f->all = xrealloc(f->all, (f->n + 1) * sizeof *f->all);
    f->all[f->n] = (struct family){.head = head, .name = name};
    return &f->all[f->n++];
}

/* NAME{LABELS} VALUE or NAME VALUE. */
static void put_sample(struct buf *out, struct str line, unsigned member)
{
    size_t at = 0;
    while (at < line.n && line.p[at] != '{' && line.p[at] != ' ')
        at++;
    bool labelled = at < line.n && line.p[at] == '{';
    buf_putstr(out, (struct str){line.p, at});
    buf_putf(out, "{process=\"%u\"%s", member, labelled ? "," : "}");
    buf_putstr(out, str_from(line, at + labelled));
}

/* The text outlives the families. */
static void sort_into(struct families *f, struct str text, unsigned member)
{
    struct family *family = NULL;
    while (text.n > 0) {
        struct str line = take_line(&text);
        if (str_begins(line, STR("# HELP "))) {
            struct str type = take_line(&text);
            family = family_of(f, (struct str){line.p, line.n + type.n});
        } else if (family) {
            put_sample(&family->samples, line, member);
        }
    }
}

void crew_page_read(struct crew_page *page, struct buf *out)
{
    struct families f = {0};
    struct buf *texts = xcalloc(page->n * sizeof *texts);
    for (unsigned i = 0; i < page->n; i++) {
        copy_text(&page->slabs[i], &texts[i]);
        sort_into(&f, buf_str(&texts[i]), i);
    }
    for (size_t i = 0; i < f.n; i++) {
        buf_putstr(out, f.all[i].head);
        buf_putstr(out, buf_str(&f.all[i].samples));
        buf_done(&f.all[i].samples);
    }
    for (unsigned i = 0; i < page->n; i++)
        buf_done(&texts[i]);
    free(texts);
    free(f.all);
}
