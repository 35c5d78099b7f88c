#include "gateway/cli/import.h"

#include <stdio.h>

#include "gateway/base/secret_line.h"
#include "gateway/store/store_pg.h"

#define URL_MAX 4096

static void say_import(void *arg, bool is_wrong, const char *sentence)
{
    (void)arg;
    printf("%s%s\n", is_wrong ? "WRONG " : "", sentence);
}

int import_run(const char *url_file, const char *dir, bool back)
{
    struct buf url = {0};
    const char *why = secret_line_read(url_file, URL_MAX, &url);
    buf_putc(&url, 0);
    struct store_pg_options o = {.url = url.bytes};
    bool good = !why && (back ? store_pg_export(&o, dir, say_import, NULL)
                              : store_pg_import(&o, dir, say_import, NULL));
    if (why)
        printf("WRONG %s: %s\n", url_file, why);
    secret_line_done(&url);
    return good ? 0 : 1;
}
