/* bound_file -- the bound of durable commits: a bare file, one write and one fdatasync for each
 * batch.
 *
 *   bound_file PATH BATCH BYTES COMMITS [sync|nosync]
 *
 * BATCH lines of BYTES each time.  Prints {"events_s":N,"commit_p50_ms":N}. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: bound_file PATH BATCH BYTES COMMITS [nosync]\n");
        return 1;
    }
    size_t batch = strtoull(argv[2], NULL, 10), bytes = strtoull(argv[3], NULL, 10);
    size_t commits = strtoull(argv[4], NULL, 10);
    int sync = argc < 6 || strcmp(argv[5], "nosync") != 0;
    char *lines = malloc(batch * bytes);
    double *took = malloc(commits * sizeof *took);
    if (!lines || !took || batch * bytes == 0 || commits == 0)
        die("memory");
    memset(lines, 'x', batch * bytes);
    int fd = open(argv[1], O_CREAT | O_TRUNC | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        die(argv[1]);
    double begun = now();
    for (size_t i = 0; i < commits; i++) {
        double at = now();
        if (write(fd, lines, batch * bytes) != (ssize_t)(batch * bytes) ||
            (sync && fdatasync(fd) < 0))
            die("write");
        took[i] = now() - at;
    }
    double all = now() - begun;
    close(fd);
    unlink(argv[1]);
    qsort(took, commits, sizeof *took, by_value);
    printf("{\"events_s\":%.0f,\"commit_p50_ms\":%.3f}\n", (double)(batch * commits) / all,
           took[commits / 2] * 1e3);
    free(took);
    free(lines);
    return 0;
}
