#include "gateway/auth/guest_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/secret_line.h"

#define MIN_SECRET 32
#define MAX_SECRET 4096

static const char name[] = "guest.key";

/* Negative errno, or 0. -EINVAL: the file exists, but is not a key. */
static int read_key(int dir, unsigned char *ret)
{
    struct stat is;
    int error = 0, fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0)
        return errno == ELOOP ? -EINVAL : -errno;
    if (fstat(fd, &is) < 0)
        error = -errno;
    else if (!S_ISREG(is.st_mode) || is.st_size != GUEST_KEY_BYTES)
        error = -EINVAL;
    else if (read(fd, ret, GUEST_KEY_BYTES) != GUEST_KEY_BYTES)
        error = -EIO;
    close(fd);
    return error;
}

static int write_key(int dir, const char *path, const unsigned char *key)
{
    int error = 0, fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return -errno;
    ssize_t n = write(fd, key, GUEST_KEY_BYTES);
    if (n != GUEST_KEY_BYTES)
        error = n < 0 ? -errno : -ENOSPC;
    else if (fsync(fd) < 0)
        error = -errno;
    close(fd);
    return error;
}

/* Gives a complete file its name, unless there is one already.  Without hard links, it renames. */
static int publish(int dir, const char *path)
{
    if (linkat(dir, path, dir, name, 0) < 0 && errno != EEXIST &&
        renameat(dir, path, dir, name) < 0)
        return -errno;
    return fsync(dir) < 0 ? -errno : 0;
}

static int make_key(int dir)
{
    unsigned char key[GUEST_KEY_BYTES];
    char path[32];

    if (RAND_bytes(key, sizeof key) != 1)
        return -EIO;
    snprintf(path, sizeof path, "%s.%ld", name, (long)getpid());
    (void)unlinkat(dir, path, 0); /* left by an earlier process that was killed here */
    int error = write_key(dir, path, key);
    if (!error)
        error = publish(dir, path);
    (void)unlinkat(dir, path, 0); /* a rename leaves none */
    return error;
}

const char *guest_key_load(const char *data_dir, unsigned char ret[GUEST_KEY_BYTES])
{
    int dir = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir < 0)
        return strerror(errno);
    int error = read_key(dir, ret);
    if (error == -ENOENT) {
        error = make_key(dir);
        if (!error)
            error = read_key(dir, ret);
    }
    close(dir);
    if (error == -EINVAL)
        return "is not a key of 32 bytes";
    return error ? strerror(-error) : NULL;
}

static bool derive(struct str secret, struct str text, unsigned char *ret)
{
    size_t n = 0;
    return EVP_Q_mac(NULL, "HMAC", NULL, "SHA256", NULL, secret.p, secret.n,
                     (const unsigned char *)text.p, text.n, ret, GUEST_KEY_BYTES, &n) &&
           n == GUEST_KEY_BYTES;
}

const char *guest_key_derive(const char *secret_file, unsigned char ret[GUEST_KEY_BYTES])
{
    struct buf secret = {0};
    const char *wrong = secret_line_read(secret_file, MAX_SECRET, &secret);

    if (!wrong && secret.len < MIN_SECRET)
        wrong = "must have at least 32 bytes";
    if (!wrong && !derive(buf_str(&secret), STR("holdfast guest key 1"), ret))
        wrong = "the key cannot be derived";
    secret_line_done(&secret);
    return wrong;
}

bool guest_key_own(const unsigned char key[GUEST_KEY_BYTES], unsigned char ret[GUEST_KEY_BYTES])
{
    return derive((struct str){(const char *)key, GUEST_KEY_BYTES}, STR("holdfast own key 1"), ret);
}

bool guest_key_files(const unsigned char key[GUEST_KEY_BYTES], unsigned char ret[GUEST_KEY_BYTES])
{
    return derive((struct str){(const char *)key, GUEST_KEY_BYTES}, STR("holdfast file key 1"),
                  ret);
}
