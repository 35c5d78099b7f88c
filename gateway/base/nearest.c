#include "gateway/base/nearest.h"

#include <strings.h>

size_t nearest_distance(struct str a, struct str b)
{
    size_t row[65];

    a.n = a.n < 64 ? a.n : 64;
    b.n = b.n < 64 ? b.n : 64;
    for (size_t j = 0; j <= b.n; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t change = diagonal + (strncasecmp(&a.p[i - 1], &b.p[j - 1], 1) != 0);
            diagonal = row[j];
            size_t other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < other ? change : other;
        }
    }
    return row[b.n];
}
