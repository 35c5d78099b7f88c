#include "gateway/base/nearest.h"

#include <strings.h>

#define MOST 64 /* characters that count */

static bool is_same_letter(char a, char b)
{
    return strncasecmp(&a, &b, 1) == 0;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t nearest_distance(struct str a, struct str b)
{
    size_t rows[3][MOST + 1]; /* of one character less, of two, and the one that is made */
    size_t *row = rows[0], *before = rows[1], *made = rows[2];

    a.n = least(a.n, MOST);
    b.n = least(b.n, MOST);
    for (size_t j = 0; j <= b.n; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        made[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            bool is_swapped = i > 1 && j > 1 && is_same_letter(a.p[i - 1], b.p[j - 2]) &&
                              is_same_letter(a.p[i - 2], b.p[j - 1]);
            made[j] = least(row[j - 1] + !is_same_letter(a.p[i - 1], b.p[j - 1]),
                            least(row[j], made[j - 1]) + 1);
            if (is_swapped)
                made[j] = least(made[j], before[j - 2] + 1);
        }
        size_t *oldest = before;
        before = row;
        row = made;
        made = oldest;
    }
    return row[b.n];
}
