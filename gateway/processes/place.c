#include "gateway/processes/place.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "proto/buf.h"

#define BOOT_LEN 36

/* So many bytes, at the beginning of a file. */
static bool read_exactly(const char *path, char *to, size_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool good = fd >= 0 && read(fd, to, n) == (ssize_t)n;
    if (fd >= 0)
        close(fd);
    return good;
}

/* Replaces it as a whole. */
static bool place_write(const char *path, struct str text)
{
    struct buf fresh = {0};
    buf_putf(&fresh, "%s.new", path);
    int fd = open(fresh.bytes, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool good = fd >= 0 && write(fd, text.p, text.n) == (ssize_t)text.n;
    if (fd >= 0)
        good = close(fd) == 0 && good;
    good = good && rename(fresh.bytes, path) == 0;
    buf_done(&fresh);
    return good;
}

void place_read(const char *data, char ret[PLACE_LEN + 1])
{
    char boot[BOOT_LEN], known[BOOT_LEN + 1 + PLACE_LEN];
    struct buf path = {0}, text = {0};
    uint64_t random = 0;
    ret[0] = 0;
    buf_putf(&path, "%s/place", data);
    bool has_boot = read_exactly("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    if (has_boot && read_exactly(path.bytes, known, sizeof known) &&
        memcmp(known, boot, sizeof boot) == 0) {
        memcpy(ret, known + BOOT_LEN + 1, PLACE_LEN);
        ret[PLACE_LEN] = 0;
    } else if (has_boot && getrandom(&random, sizeof random, 0) == sizeof random) {
        snprintf(ret, PLACE_LEN + 1, "%016" PRIx64, random);
        buf_putf(&text, "%.*s %s\n", BOOT_LEN, boot, ret);
        if (!place_write(path.bytes, buf_str(&text)))
            ret[0] = 0;
    }
    buf_done(&path);
    buf_done(&text);
}
