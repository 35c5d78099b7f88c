#include "proto/link.h"

#include "proto/varint.h"

static const struct {
    const char *word, *payload;
} kinds[N_LINK_KINDS] = {
#define X(name, word, payload) [name] = {word, payload},
    LINK_TABLE(X)
#undef X
};

const char *link_word(enum link_kind kind)
{
    ASSERT(kind > LINK_NOTHING && kind < N_LINK_KINDS);
    return kinds[kind].word;
}

static void put_u32(unsigned char *to, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(n >> 8 * i);
}

static uint32_t get_u32(const char *from)
{
    uint32_t n = 0;
    for (int i = 0; i < 4; i++)
        n |= (uint32_t)(unsigned char)from[i] << 8 * i;
    return n;
}

static void put_varint(struct buf *out, uint64_t n)
{
    unsigned char *to = (unsigned char *)buf_reserve(out, VARINT_MAX);
    out->len += (size_t)(varint_put(to, n) - to);
}

/* --- writing ---------------------------------------------------------------------------------- */

size_t link_begin(struct buf *out, const struct link_frame *f)
{
    size_t begun = out->len, n = 0, t = 0;
    unsigned char head[LINK_HEAD] = {0};
    ASSERT(f->kind > LINK_NOTHING && f->kind < N_LINK_KINDS);
    head[4] = (unsigned char)f->kind;
    put_u32(head + 5, f->id);
    buf_put(out, head, sizeof head);
    for (const char *p = kinds[f->kind].payload; *p; p++) {
        if (*p == 'f')
            buf_putc(out, (char)f->flags);
        else if (*p == 'n')
            put_varint(out, f->number[n++]);
        else if (*p == 't')
            put_varint(out, f->text[t].n);
        if (*p == 't')
            buf_putstr(out, f->text[t++]);
    }
    return begun;
}

void link_end(struct buf *out, size_t begun)
{
    size_t n = out->len - begun - LINK_HEAD;
    ASSERT(n <= LINK_MOST);
    put_u32((unsigned char *)out->bytes + begun, (uint32_t)n);
}

void link_put(struct buf *out, const struct link_frame *f)
{
    size_t begun = link_begin(out, f);
    buf_putstr(out, f->bytes);
    link_end(out, begun);
}

/* --- reading ---------------------------------------------------------------------------------- */

static bool link_take_text(struct str *from, struct str *ret)
{
    uint64_t n;
    if (!varint_take(from, &n) || n > LINK_MOST_TEXT || n > from->n)
        return false;
    *ret = (struct str){from->p, (size_t)n};
    from->p += n;
    from->n -= (size_t)n;
    return true;
}

static bool link_take_flags(struct str *from, uint8_t *ret)
{
    if (from->n == 0)
        return false;
    *ret = (uint8_t)*from->p++;
    from->n--;
    return true;
}

static bool link_take_payload(struct str from, struct link_frame *f)
{
    size_t n = 0, t = 0;
    bool good = true;
    f->bytes = STR("");
    for (const char *p = kinds[f->kind].payload; good && *p; p++) {
        switch (*p) {
        case 'f': good = link_take_flags(&from, &f->flags); break;
        case 'n': good = varint_take(&from, &f->number[n++]); break;
        case 't': good = link_take_text(&from, &f->text[t++]); break;
        default:
            f->bytes = from;
            from.n = 0;
            break;
        }
    }
    return good && from.n == 0;
}

enum link_reading link_read(struct str *bytes, size_t most, struct link_frame *ret)
{
    *ret = (struct link_frame){0};
    if (bytes->n < LINK_HEAD)
        return LINK_SHORT;
    size_t n = get_u32(bytes->p);
    unsigned kind = (unsigned char)bytes->p[4];
    if (n > most || kind == LINK_NOTHING || kind >= N_LINK_KINDS)
        return LINK_BROKEN;
    if (bytes->n - LINK_HEAD < n)
        return LINK_SHORT;
    ret->kind = (enum link_kind)kind;
    ret->id = get_u32(bytes->p + 5);
    struct str payload = {bytes->p + LINK_HEAD, n};
    bytes->p += LINK_HEAD + n;
    bytes->n -= LINK_HEAD + n;
    return link_take_payload(payload, ret) ? LINK_READ : LINK_BROKEN;
}

/* --- who is spoken to ------------------------------------------------------------------------- */

const char *link_refuses(const struct link_frame *mine, const struct link_frame *theirs)
{
    if (theirs->kind != LINK_HELLO || theirs->bytes.n != LINK_NONCE)
        return "it does not begin with a hello";
    if (theirs->number[0] != mine->number[0])
        return "it speaks another version of links";
    if (!str_eq(theirs->text[0], mine->text[0]))
        return "it belongs to another cluster";
    if (theirs->number[1] == mine->number[1])
        return "it is this node";
    return NULL;
}

void link_put_proven(struct buf *out, bool dialler, const struct link_frame *dials,
                     const struct link_frame *accepts, struct str binding)
{
    buf_puts(out, dialler ? "holdfast link, dialler:" : "holdfast link, acceptor:");
    link_put(out, dials);
    link_put(out, accepts);
    buf_putstr(out, binding);
}
