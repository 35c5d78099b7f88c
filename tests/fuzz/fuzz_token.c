/* Any text as a token: nobody gets in without a signature, and every refusal says why, in a few
 * words and with nothing of the token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/auth/auth.h"
#include "gateway/config/config.h"

#define WALL_MS 1764280000000

static struct auth *auth;

static void open_auth(void)
{
    char path[] = "/tmp/holdfast-fuzz-XXXXXX";
    int fd = mkstemp(path);
    ASSERT(fd >= 0 && write(fd, "a secret of more than thirty-two bytes, for it", 46) == 46);
    close(fd);
    struct config_key keys[] = {{.kid = "k1", .alg = ALG_HS256, .secret_file = path}};
    struct config config = {.auth = {.keys = keys, .n_keys = 1, .cookie = "session"},
                            .serves_guests = true};
    struct buf faults = {0};
    auth = auth_open(&config, NULL, &faults);
    ASSERT(auth);
    buf_done(&faults);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!auth)
        open_auth();
    struct str token = {(const char *)data, size};
    for (int where = 0; where < 3; where++) {
        struct identity who = {0};
        bool known = auth_check(auth, where == 0 ? token : STR_NULL, where == 1 ? token : STR_NULL,
                                where == 2 ? token : STR_NULL, WALL_MS, &who);
        ASSERT(!known && who.error[0] && memchr(who.error, 0, sizeof who.error));
        buf_done(&who.token);
    }
    char *header = xstrdup(token); /* as far as its first NUL */
    (void)auth_bearer(str_of(header));
    (void)auth_cookie(auth, str_of(header));
    free(header);
    return 0;
}
