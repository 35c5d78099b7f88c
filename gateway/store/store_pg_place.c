/* The data directory of a gateway whose store is elsewhere: its lock proves that whoever had it
 * before is gone, and an id in it tells it from those of other machines. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "gateway/base/folders.h"
#include "gateway/store/data_dir.h"
#include "gateway/store/store_pg_private.h"

#define ID_BYTES 16

static bool place_read(int dir, char ret[2 * ID_BYTES + 1])
{
    int fd = openat(dir, "place.id", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? read(fd, ret, 2 * ID_BYTES) : -1;
    if (fd >= 0)
        close(fd);
    ret[n > 0 ? n : 0] = 0;
    return n == 2 * ID_BYTES && strspn(ret, "0123456789abcdef") == 2 * ID_BYTES;
}

/* Under another name first, so that there is never half an id. */
static bool place_write(int dir)
{
    unsigned char bytes[ID_BYTES];
    char text[2 * ID_BYTES + 1] = "";
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    int fd =
        openat(dir, "place.id.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool good =
        fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return good && renameat(dir, "place.id.new", dir, "place.id") == 0 && fsync(dir) == 0;
}

static int place_id(const char *path, char ret[2 * ID_BYTES + 1], char *ret_error)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = dir >= 0 && (place_read(dir, ret) || (place_write(dir) && place_read(dir, ret)));
    if (!good)
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot write %.160s/place.id: %s", path,
                 strerror(errno));
    if (dir >= 0)
        close(dir);
    return good ? STORE_OK : STORE_IO;
}

int pg_place_take(struct store_pg *s, const char *dir, char ret_error[STORE_ERROR_TEXT])
{
    char id[2 * ID_BYTES + 1] = "";
    if (!dir) {
        s->place = xstrdup(STR(""));
        return STORE_OK;
    }
    if (!folders_make(dir)) {
        snprintf(ret_error, STORE_ERROR_TEXT, "cannot create the data directory %.160s: %s", dir,
                 strerror(errno));
        return STORE_IO;
    }
    if (!data_dir_narrow(dir, ret_error))
        return STORE_IO;
    int status = store_lock_take(&s->held, dir, ret_error);
    if (status == STORE_OK)
        status = place_id(dir, id, ret_error);
    s->holds_place = status == STORE_OK;
    s->place = xstrdup(str_of(id));
    return status;
}
