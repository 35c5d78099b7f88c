#include "proto/search.h"

#include "proto/js.h"
#include "proto/utf8.h"

/* Characters that are folded: first, last, step, and what is added.  From Unicode 14.0, the
 * statuses C and S of CaseFolding.txt; characters whose folding is more than one stay. */
static const struct {
    uint32_t first, last;
    uint8_t step;
    int32_t add;
} folds[] = {
    {0xb5, 0xb5, 1, 775},        {0xc0, 0xd6, 1, 32},         {0xd8, 0xde, 1, 32},
    {0x100, 0x12e, 2, 1},        {0x132, 0x136, 2, 1},        {0x139, 0x147, 2, 1},
    {0x14a, 0x176, 2, 1},        {0x178, 0x178, 1, -121},     {0x179, 0x17d, 2, 1},
    {0x17f, 0x17f, 1, -268},     {0x181, 0x181, 1, 210},      {0x182, 0x184, 2, 1},
    {0x186, 0x186, 1, 206},      {0x187, 0x187, 1, 1},        {0x189, 0x18a, 1, 205},
    {0x18b, 0x18b, 1, 1},        {0x18e, 0x18e, 1, 79},       {0x18f, 0x18f, 1, 202},
    {0x190, 0x190, 1, 203},      {0x191, 0x191, 1, 1},        {0x193, 0x193, 1, 205},
    {0x194, 0x194, 1, 207},      {0x196, 0x196, 1, 211},      {0x197, 0x197, 1, 209},
    {0x198, 0x198, 1, 1},        {0x19c, 0x19c, 1, 211},      {0x19d, 0x19d, 1, 213},
    {0x19f, 0x19f, 1, 214},      {0x1a0, 0x1a4, 2, 1},        {0x1a6, 0x1a6, 1, 218},
    {0x1a7, 0x1a7, 1, 1},        {0x1a9, 0x1a9, 1, 218},      {0x1ac, 0x1ac, 1, 1},
    {0x1ae, 0x1ae, 1, 218},      {0x1af, 0x1af, 1, 1},        {0x1b1, 0x1b2, 1, 217},
    {0x1b3, 0x1b5, 2, 1},        {0x1b7, 0x1b7, 1, 219},      {0x1b8, 0x1b8, 1, 1},
    {0x1bc, 0x1bc, 1, 1},        {0x1c4, 0x1c4, 1, 2},        {0x1c5, 0x1c5, 1, 1},
    {0x1c7, 0x1c7, 1, 2},        {0x1c8, 0x1c8, 1, 1},        {0x1ca, 0x1ca, 1, 2},
    {0x1cb, 0x1db, 2, 1},        {0x1de, 0x1ee, 2, 1},        {0x1f1, 0x1f1, 1, 2},
    {0x1f2, 0x1f4, 2, 1},        {0x1f6, 0x1f6, 1, -97},      {0x1f7, 0x1f7, 1, -56},
    {0x1f8, 0x21e, 2, 1},        {0x220, 0x220, 1, -130},     {0x222, 0x232, 2, 1},
    {0x23a, 0x23a, 1, 10795},    {0x23b, 0x23b, 1, 1},        {0x23d, 0x23d, 1, -163},
    {0x23e, 0x23e, 1, 10792},    {0x241, 0x241, 1, 1},        {0x243, 0x243, 1, -195},
    {0x244, 0x244, 1, 69},       {0x245, 0x245, 1, 71},       {0x246, 0x24e, 2, 1},
    {0x345, 0x345, 1, 116},      {0x370, 0x372, 2, 1},        {0x376, 0x376, 1, 1},
    {0x37f, 0x37f, 1, 116},      {0x386, 0x386, 1, 38},       {0x388, 0x38a, 1, 37},
    {0x38c, 0x38c, 1, 64},       {0x38e, 0x38f, 1, 63},       {0x391, 0x3a1, 1, 32},
    {0x3a3, 0x3ab, 1, 32},       {0x3c2, 0x3c2, 1, 1},        {0x3cf, 0x3cf, 1, 8},
    {0x3d0, 0x3d0, 1, -30},      {0x3d1, 0x3d1, 1, -25},      {0x3d5, 0x3d5, 1, -15},
    {0x3d6, 0x3d6, 1, -22},      {0x3d8, 0x3ee, 2, 1},        {0x3f0, 0x3f0, 1, -54},
    {0x3f1, 0x3f1, 1, -48},      {0x3f4, 0x3f4, 1, -60},      {0x3f5, 0x3f5, 1, -64},
    {0x3f7, 0x3f7, 1, 1},        {0x3f9, 0x3f9, 1, -7},       {0x3fa, 0x3fa, 1, 1},
    {0x3fd, 0x3ff, 1, -130},     {0x400, 0x40f, 1, 80},       {0x410, 0x42f, 1, 32},
    {0x460, 0x480, 2, 1},        {0x48a, 0x4be, 2, 1},        {0x4c0, 0x4c0, 1, 15},
    {0x4c1, 0x4cd, 2, 1},        {0x4d0, 0x52e, 2, 1},        {0x531, 0x556, 1, 48},
    {0x10a0, 0x10c5, 1, 7264},   {0x10c7, 0x10c7, 1, 7264},   {0x10cd, 0x10cd, 1, 7264},
    {0x13f8, 0x13fd, 1, -8},     {0x1c80, 0x1c80, 1, -6222},  {0x1c81, 0x1c81, 1, -6221},
    {0x1c82, 0x1c82, 1, -6212},  {0x1c83, 0x1c84, 1, -6210},  {0x1c85, 0x1c85, 1, -6211},
    {0x1c86, 0x1c86, 1, -6204},  {0x1c87, 0x1c87, 1, -6180},  {0x1c88, 0x1c88, 1, 35267},
    {0x1c90, 0x1cba, 1, -3008},  {0x1cbd, 0x1cbf, 1, -3008},  {0x1e00, 0x1e94, 2, 1},
    {0x1e9b, 0x1e9b, 1, -58},    {0x1e9e, 0x1e9e, 1, -7615},  {0x1ea0, 0x1efe, 2, 1},
    {0x1f08, 0x1f0f, 1, -8},     {0x1f18, 0x1f1d, 1, -8},     {0x1f28, 0x1f2f, 1, -8},
    {0x1f38, 0x1f3f, 1, -8},     {0x1f48, 0x1f4d, 1, -8},     {0x1f59, 0x1f5f, 2, -8},
    {0x1f68, 0x1f6f, 1, -8},     {0x1f88, 0x1f8f, 1, -8},     {0x1f98, 0x1f9f, 1, -8},
    {0x1fa8, 0x1faf, 1, -8},     {0x1fb8, 0x1fb9, 1, -8},     {0x1fba, 0x1fbb, 1, -74},
    {0x1fbc, 0x1fbc, 1, -9},     {0x1fbe, 0x1fbe, 1, -7173},  {0x1fc8, 0x1fcb, 1, -86},
    {0x1fcc, 0x1fcc, 1, -9},     {0x1fd8, 0x1fd9, 1, -8},     {0x1fda, 0x1fdb, 1, -100},
    {0x1fe8, 0x1fe9, 1, -8},     {0x1fea, 0x1feb, 1, -112},   {0x1fec, 0x1fec, 1, -7},
    {0x1ff8, 0x1ff9, 1, -128},   {0x1ffa, 0x1ffb, 1, -126},   {0x1ffc, 0x1ffc, 1, -9},
    {0x2126, 0x2126, 1, -7517},  {0x212a, 0x212a, 1, -8383},  {0x212b, 0x212b, 1, -8262},
    {0x2132, 0x2132, 1, 28},     {0x2160, 0x216f, 1, 16},     {0x2183, 0x2183, 1, 1},
    {0x24b6, 0x24cf, 1, 26},     {0x2c00, 0x2c2f, 1, 48},     {0x2c60, 0x2c60, 1, 1},
    {0x2c62, 0x2c62, 1, -10743}, {0x2c63, 0x2c63, 1, -3814},  {0x2c64, 0x2c64, 1, -10727},
    {0x2c67, 0x2c6b, 2, 1},      {0x2c6d, 0x2c6d, 1, -10780}, {0x2c6e, 0x2c6e, 1, -10749},
    {0x2c6f, 0x2c6f, 1, -10783}, {0x2c70, 0x2c70, 1, -10782}, {0x2c72, 0x2c72, 1, 1},
    {0x2c75, 0x2c75, 1, 1},      {0x2c7e, 0x2c7f, 1, -10815}, {0x2c80, 0x2ce2, 2, 1},
    {0x2ceb, 0x2ced, 2, 1},      {0x2cf2, 0x2cf2, 1, 1},      {0xa640, 0xa66c, 2, 1},
    {0xa680, 0xa69a, 2, 1},      {0xa722, 0xa72e, 2, 1},      {0xa732, 0xa76e, 2, 1},
    {0xa779, 0xa77b, 2, 1},      {0xa77d, 0xa77d, 1, -35332}, {0xa77e, 0xa786, 2, 1},
    {0xa78b, 0xa78b, 1, 1},      {0xa78d, 0xa78d, 1, -42280}, {0xa790, 0xa792, 2, 1},
    {0xa796, 0xa7a8, 2, 1},      {0xa7aa, 0xa7aa, 1, -42308}, {0xa7ab, 0xa7ab, 1, -42319},
    {0xa7ac, 0xa7ac, 1, -42315}, {0xa7ad, 0xa7ad, 1, -42305}, {0xa7ae, 0xa7ae, 1, -42308},
    {0xa7b0, 0xa7b0, 1, -42258}, {0xa7b1, 0xa7b1, 1, -42282}, {0xa7b2, 0xa7b2, 1, -42261},
    {0xa7b3, 0xa7b3, 1, 928},    {0xa7b4, 0xa7c2, 2, 1},      {0xa7c4, 0xa7c4, 1, -48},
    {0xa7c5, 0xa7c5, 1, -42307}, {0xa7c6, 0xa7c6, 1, -35384}, {0xa7c7, 0xa7c9, 2, 1},
    {0xa7d0, 0xa7d0, 1, 1},      {0xa7d6, 0xa7d8, 2, 1},      {0xa7f5, 0xa7f5, 1, 1},
    {0xab70, 0xabbf, 1, -38864}, {0xff21, 0xff3a, 1, 32},     {0x10400, 0x10427, 1, 40},
    {0x104b0, 0x104d3, 1, 40},   {0x10570, 0x1057a, 1, 39},   {0x1057c, 0x1058a, 1, 39},
    {0x1058c, 0x10592, 1, 39},   {0x10594, 0x10595, 1, 39},   {0x10c80, 0x10cb2, 1, 64},
    {0x118a0, 0x118bf, 1, 32},   {0x16e40, 0x16e5f, 1, 32},   {0x1e900, 0x1e921, 1, 34},
};

/* Scripts that have no blanks between words. */
static const uint32_t without_blanks[][2] = {
    {0x0e00, 0x0eff}, {0x1000, 0x109f}, {0x1780, 0x17ff},   {0x2e80, 0x2fdf},
    {0x3005, 0x3007}, {0x3021, 0x30ff}, {0x3100, 0x312f},   {0x3400, 0x4dbf},
    {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x3ffff},
};

/* Characters beyond ASCII that are neither letters nor digits. */
static const uint32_t no_words[][2] = {
    {0x0080, 0x00a9}, {0x00ab, 0x00b4}, {0x00b6, 0x00b9}, {0x00bb, 0x00bf},   {0x00d7, 0x00d7},
    {0x00f7, 0x00f7}, {0x055a, 0x055f}, {0x0589, 0x058a}, {0x05be, 0x05be},   {0x060c, 0x060c},
    {0x061b, 0x061f}, {0x0964, 0x0965}, {0x2000, 0x206f}, {0x20a0, 0x20cf},   {0x2190, 0x2bff},
    {0x2e00, 0x2e5d}, {0x3000, 0x3004}, {0x3008, 0x3020}, {0xfe30, 0xfe6b},   {0xff01, 0xff0f},
    {0xff1a, 0xff20}, {0xff3b, 0xff40}, {0xff5b, 0xff65}, {0x1f000, 0x1faff},
};

static bool is_in(uint32_t c, const uint32_t ranges[][2], size_t n)
{
    for (size_t i = 0; i < n && ranges[i][0] <= c; i++)
        if (c <= ranges[i][1])
            return true;
    return false;
}

static uint32_t fold(uint32_t c)
{
    size_t low = 0, high = countof(folds);
    if (c < 0x80)
        return c >= 'A' && c <= 'Z' ? c + 32 : c;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (folds[mid].last < c)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == countof(folds) || c < folds[low].first || (c - folds[low].first) % folds[low].step)
        return c;
    return (uint32_t)((int32_t)c + folds[low].add);
}

static bool is_in_word(uint32_t c)
{
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '_';
    return !is_in(c, no_words, countof(no_words));
}

static bool is_blank(uint32_t c)
{
    return c == ' ' || (c >= 9 && c <= 13) || c == 0xa0 || c == 0x3000;
}

/* --- the query -------------------------------------------------------------------------------- */

static void end_part(struct search *s, size_t from, size_t end)
{
    if (end == from || s->n_parts == SEARCH_PARTS)
        return;
    s->parts[s->n_parts].from = from;
    s->parts[s->n_parts++].n = end - from;
}

bool search_read(struct str query, struct search *ret)
{
    size_t n = 0, from = 0;
    bool quoted = false;
    *ret = (struct search){0};
    for (size_t at = 0; at < query.n && n < MAX_SEARCH;) {
        uint32_t c;
        at += utf8_step(query.p + at, query.n - at, &c);
        if (c == '"' || (is_blank(c) && !quoted)) {
            end_part(ret, from, n);
            from = n;
            quoted = c == '"' ? !quoted : quoted;
        } else {
            ret->chars[n++] = fold(c);
        }
    }
    end_part(ret, from, n);
    return ret->n_parts > 0;
}

void search_done(struct search *s)
{
    buf_done(&s->folded);
}

/* --- texts ------------------------------------------------------------------------------------ */

static size_t fold_text(struct search *s, struct str text)
{
    size_t n = 0;
    buf_clear(&s->folded);
    buf_reserve(&s->folded, text.n * sizeof(uint32_t));
    uint32_t *to = (uint32_t *)(void *)s->folded.bytes;
    for (size_t at = 0; at < text.n; n++) {
        uint32_t c;
        at += utf8_step(text.p + at, text.n - at, &c);
        to[n] = fold(c);
    }
    return n;
}

/* Where the part is found from that character on; n: nowhere. */
static size_t find_part(const struct search *s, size_t part, size_t from, size_t n)
{
    const uint32_t *text = (const uint32_t *)(const void *)s->folded.bytes;
    const uint32_t *chars = s->chars + s->parts[part].from;
    size_t len = s->parts[part].n;
    bool anywhere = len >= SEARCH_WHOLE || is_in(chars[0], without_blanks, countof(without_blanks));
    for (size_t i = from; i + len <= n; i++)
        if (text[i] == chars[0] && (anywhere || i == 0 || !is_in_word(text[i - 1])) &&
            memcmp(text + i, chars, len * sizeof *chars) == 0)
            return i;
    return n;
}

bool search_finds(struct search *s, struct str text)
{
    if (text.n == 0)
        return false;
    size_t n = fold_text(s, text);
    for (size_t i = 0; i < s->n_parts; i++)
        if (find_part(s, i, 0, n) == n)
            return false;
    return true;
}

/* The first place from that character on where any part is found, and the longest there. */
static size_t find_any(const struct search *s, size_t from, size_t n, size_t *ret_len)
{
    size_t first = n;
    *ret_len = 0;
    for (size_t i = 0; i < s->n_parts; i++) {
        size_t at = find_part(s, i, from, n);
        if (at < first || (at == first && at < n && s->parts[i].n > *ret_len)) {
            first = at;
            *ret_len = s->parts[i].n;
        }
    }
    return first;
}

static void put_matches(const struct search *s, size_t from, size_t end, struct buf *out)
{
    size_t len, marked = 0;
    js_put_raw(out, "matches", STR("["));
    for (size_t at = find_any(s, from, end, &len); at < end && marked < SEARCH_MATCHES; marked++) {
        buf_putf(out, "%s[%zu,%zu]", marked ? "," : "", at - from, len);
        at = find_any(s, at + len, end, &len);
    }
    buf_putc(out, ']');
}

/* Where the piece begins: at the first word of those before what was found.  A word that is as
 * long as all of them is cut. */
static size_t piece_from(const struct search *s, size_t at)
{
    const uint32_t *text = (const uint32_t *)(const void *)s->folded.bytes;
    if (at <= SEARCH_BEFORE)
        return 0;
    for (size_t i = at - SEARCH_BEFORE; i < at; i++)
        if (is_in(text[i], without_blanks, countof(without_blanks)) ||
            (is_blank(text[i - 1]) && !is_blank(text[i])))
            return i;
    return at - SEARCH_BEFORE;
}

/* Where it ends: behind the last word that there is room for, and not within what was found. */
static size_t piece_end(const struct search *s, size_t from, size_t found, size_t n)
{
    const uint32_t *text = (const uint32_t *)(const void *)s->folded.bytes;
    size_t end = from + SEARCH_SHOWN;
    if (end >= n)
        return n;
    for (size_t i = end; i >= found && i > end - SEARCH_BEFORE; i--)
        if (is_in(text[i], without_blanks, countof(without_blanks)) ||
            (is_blank(text[i]) && !is_blank(text[i - 1])))
            return i;
    return end;
}

void search_put(struct search *s, struct str text, struct buf *out)
{
    size_t n = fold_text(s, text), len;
    size_t at = find_any(s, 0, n, &len);
    size_t from = at < n ? piece_from(s, at) : 0;
    size_t end = piece_end(s, from, at < n ? at + len : 0, n);
    size_t begin = utf8_chars(text, from);
    struct str shown = {text.p + begin, utf8_chars(text, end) - begin};
    js_put_field(out, "text", shown);
    put_matches(s, from, end, out);
}

void search_put_matches(struct search *s, struct str text, struct buf *out)
{
    put_matches(s, 0, fold_text(s, text), out);
}
