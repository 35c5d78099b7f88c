#include "gateway/base/secret_lines.h"

#include <strings.h>

#include "proto/str.h"

static bool names_secret(struct str name)
{
    static const char *const words[] = {"key",           "token",  "secret",    "pass",
                                        "authorization", "cookie", "credential"};
    for (size_t i = 0; i < countof(words); i++) {
        size_t n = strlen(words[i]);
        for (size_t at = 0; at + n <= name.n; at++)
            if (strncasecmp(name.p + at, words[i], n) == 0)
                return true;
    }
    return false;
}

/* Behind "Bearer " or "Basic ". */
static struct str without_scheme(struct str value)
{
    static const char *const schemes[] = {"Bearer ", "Basic ", "Token "};
    for (size_t i = 0; i < countof(schemes); i++)
        if (str_begins_nocase(value, str_of(schemes[i])))
            return str_trim(str_from(value, strlen(schemes[i])));
    return value;
}

void secret_lines_add(struct secrets *s, char *const *lines, char separator)
{
    for (; s && lines && *lines; lines++) {
        const char *at = strchr(*lines, separator);
        if (at && names_secret((struct str){*lines, (size_t)(at - *lines)}))
            secrets_add(s, without_scheme(str_trim(str_of(at + 1))));
    }
}
