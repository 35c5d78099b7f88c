/* bound_bytes -- what only moving a replay's bytes costs: a bare loop of writes to one reader.
 *
 *   bound_bytes BYTES TIMES
 *
 * The writer (processor 0) has the bytes in memory and writes pieces of 128 KiB, as the gateway's
 * chunks are; the reader (processor 1) asks with one byte and reads all.  Prints {"cpu_s":N}: the
 * writer's for all times. */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIECE (128u << 10)
#define READ_BYTES (256u << 10) /* as load_face.c reads */

static void check(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bound_bytes: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set); /* a machine with one has no choice */
}

static void write_all(int listener, size_t bytes, long times)
{
    char *from = malloc(bytes), c;
    int fd = accept(listener, NULL, NULL);
    pin(0);
    check(from && fd >= 0, "accept");
    memset(from, 'x', bytes);
    for (long i = 0; i < times; i++) {
        check(read(fd, &c, 1) == 1, "read");
        for (size_t at = 0; at < bytes;) {
            ssize_t n = write(fd, from + at, bytes - at < PIECE ? bytes - at : PIECE);
            check(n > 0, "write");
            at += (size_t)n;
        }
    }
    _exit(0);
}

static void read_all(int fd, size_t bytes, long times)
{
    static char to[READ_BYTES];
    pin(1);
    for (long i = 0; i < times; i++) {
        check(write(fd, "g", 1) == 1, "write");
        for (size_t got = 0; got < bytes;) {
            ssize_t n = read(fd, to, sizeof to);
            check(n > 0, "read");
            got += (size_t)n;
        }
    }
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    struct rusage used;
    int status = 0;
    if (argc != 3) {
        fprintf(stderr, "usage: bound_bytes BYTES TIMES\n");
        return 1;
    }
    size_t bytes = strtoull(argv[1], NULL, 10);
    long times = strtol(argv[2], NULL, 10);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(listener >= 0 && bind(listener, (struct sockaddr *)&at, n) == 0 &&
              listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &n) == 0,
          "listen");
    pid_t writer = fork();
    check(writer >= 0, "fork");
    if (writer == 0)
        write_all(listener, bytes, times);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    read_all(fd, bytes, times);
    check(wait4(writer, &status, 0, &used) == writer && status == 0, "wait4");
    printf("{\"cpu_s\":%.6f}\n", seconds(used.ru_utime) + seconds(used.ru_stime));
    return 0;
}
