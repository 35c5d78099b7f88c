#include "gateway/processes/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/base/fault.h"

/* Design.  A rewind has three steps: next is set, the position is set to 0, base becomes next.
 * Nothing is spliced between them.  So a position below SPOOL_REWIND with next ahead of base says
 * that the second step was done; any other, that it was not. */

#define PUNCH_STEP (256 * 1024)

int spool_new(void)
{
    int fd = memfd_create("holdfast", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, SPOOL_MAPPED) < 0) { /* so that the mapping has a file behind it */
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static ssize_t spool_splice(int from, int to, size_t n)
{
    ssize_t moved;
    do
        moved = splice(from, NULL, to, NULL, n, SPLICE_F_NONBLOCK);
    while (moved < 0 && errno == EINTR);
    return moved;
}

static bool punch(int file, uint64_t from, uint64_t to)
{
    return fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                     (off_t)(to - from)) == 0;
}

/* Both ways through a pipe, with both positions, and the punch. */
static bool probe_moves(int file, const int pipe[2])
{
    char back[4];
    return write(pipe[1], "1234", 4) == 4 && spool_splice(pipe[0], file, 4) == 4 &&
           lseek(file, 0, SEEK_CUR) == 4 && pread(file, back, 4, 0) == 4 &&
           memcmp(back, "1234", 4) == 0 && lseek(file, 0, SEEK_SET) == 0 &&
           spool_splice(file, pipe[1], 4) == 4 && lseek(file, 0, SEEK_CUR) == 4 &&
           read(pipe[0], back, 4) == 4 && memcmp(back, "1234", 4) == 0 && punch(file, 0, 4096);
}

const char *spool_probe(void)
{
    const char *why = NULL;
    int pipe[2], file = spool_new();
    if (file < 0)
        return "this system has no memfd_create";
    if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
        why = strerror(errno);
    } else {
        errno = 0;
        if (!probe_moves(file, pipe))
            why = "splice between a pipe and a memfd does not work on this system";
        close(pipe[0]);
        close(pipe[1]);
    }
    close(file);
    return why;
}

/* --- stdout ----------------------------------------------------------------------------------- */

static void finish_rewind(struct hold_page *page, uint64_t position)
{
    if (page->out_next == page->out_base)
        return;
    if (position >= SPOOL_REWIND)
        __atomic_store_n(&page->out_next, page->out_base, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n(&page->out_base, page->out_next, __ATOMIC_SEQ_CST);
}

bool spool_out_open(struct spool_out *s, struct hold_page *page, int pipe, int file, uint64_t mark)
{
    off_t at = lseek(file, 0, SEEK_CUR);
    *s = (struct spool_out){.page = page, .pipe = pipe, .file = file, .taken = mark};
    if (at < 0)
        return false;
    finish_rewind(page, (uint64_t)at);
    s->position = page->out_base + (uint64_t)at;
    if (mark < page->out_base || mark > s->position)
        return false;
    void *mapped = mmap(NULL, SPOOL_MAPPED, PROT_READ, MAP_SHARED, file, 0);
    s->mapped = mapped == MAP_FAILED ? NULL : mapped;
    return true;
}

void spool_out_close(struct spool_out *s)
{
    if (s->mapped)
        munmap((void *)(uintptr_t)s->mapped, SPOOL_MAPPED);
    s->mapped = NULL;
}

/* Bytes that left the pipe and were not handed over. */
static ssize_t copy_out(struct spool_out *s, struct buf *to)
{
    uint64_t at = s->taken - s->page->out_base, left = s->position - s->taken;
    size_t n = left < SPOOL_CHUNK ? (size_t)left : SPOOL_CHUNK;
    char *end = buf_reserve(to, n);
    if (s->mapped && at + n <= SPOOL_MAPPED) {
        memcpy(end, s->mapped + at, n);
    } else {
        ssize_t got;
        do
            got = pread(s->file, end, n, (off_t)at);
        while (got < 0 && errno == EINTR);
        if (got <= 0) {
            errno = got < 0 ? errno : EIO;
            return -1;
        }
        n = (size_t)got;
    }
    to->len += n;
    to->bytes[to->len] = 0;
    s->taken += n;
    return (ssize_t)n;
}

ssize_t spool_out_read(struct spool_out *s, struct buf *to)
{
    if (s->taken == s->position) {
        ssize_t n = s->pipe < 0 ? 0 : spool_splice(s->pipe, s->file, SPOOL_CHUNK);
        if (n <= 0)
            return n;
        s->position += (uint64_t)n;
        FAULT_DIE(SPLICE_OUT);
    }
    return copy_out(s, to);
}

/* Nothing that the caller still reads lies in the file, because all of it is handed over. */
static void spool_rewind(struct spool_out *s)
{
    uint64_t end = s->position - s->page->out_base;
    __atomic_store_n(&s->page->out_next, s->position, __ATOMIC_SEQ_CST);
    FAULT_DIE(REWIND_1);
    if (lseek(s->file, 0, SEEK_SET) != 0) {
        __atomic_store_n(&s->page->out_next, s->page->out_base, __ATOMIC_SEQ_CST);
        return;
    }
    FAULT_DIE(REWIND_2);
    __atomic_store_n(&s->page->out_base, s->position, __ATOMIC_SEQ_CST);
    s->punched = 0;
    if (end >= 2 * (uint64_t)SPOOL_REWIND)
        (void)punch(s->file, SPOOL_REWIND, end);
    FAULT_DIE(REWIND_3);
}

void spool_out_settle(struct spool_out *s, uint64_t mark)
{
    ASSERT(mark <= s->taken && mark >= s->page->out_base);
    if (mark == s->position && s->position - s->page->out_base >= SPOOL_REWIND) {
        spool_rewind(s);
        return;
    }
    uint64_t whole = (mark - s->page->out_base) / PUNCH_STEP * PUNCH_STEP;
    if (whole <= s->punched || !punch(s->file, s->punched, whole))
        return;
    s->punched = whole;
    FAULT_DIE(PUNCH);
}

/* --- stdin ------------------------------------------------------------------------------------ */

bool spool_in_open(struct spool_in *s, struct hold_page *page, int pipe, int file)
{
    off_t at = lseek(file, 0, SEEK_CUR);
    *s = (struct spool_in){.page = page, .pipe = pipe, .file = file, .position = (uint64_t)at};
    return at >= 0;
}

uint64_t spool_in_waiting(const struct spool_in *s)
{
    return hold_page_newest(s->page).end - s->position;
}

static bool write_at(int file, struct str bytes, uint64_t at)
{
    while (bytes.n > 0) {
        ssize_t n = pwrite(file, bytes.p, bytes.n, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes.p += n;
        bytes.n -= (size_t)n;
        at += (uint64_t)n;
    }
    return true;
}

bool spool_in_put(struct spool_in *s, uint64_t number, uint64_t said, struct str bytes)
{
    struct hold_line line = hold_page_newest(s->page);
    ASSERT(number == 0 || number > line.number);
    if (!hold_page_has_room(s->page, s->position) || !write_at(s->file, bytes, line.end))
        return false;
    FAULT_DIE(LINE_BYTES);
    line.number = number ? number : line.number;
    line.end += bytes.n;
    line.said |= said;
    hold_page_put(s->page, &line);
    FAULT_DIE(LINE_NUMBER);
    return true;
}

/* A large page must not be punched in part: it would be zeroed under a pipe that still has it. */
static uint64_t cut_step(int file)
{
    struct stat st;
    if (fstat(file, &st) < 0 || st.st_blksize <= 0)
        return 0;
    return st.st_blksize > SPOOL_CHUNK ? (uint64_t)st.st_blksize : SPOOL_CHUNK;
}

/* Drops what the program has read. */
static void spool_in_cut(struct spool_in *s)
{
    int unread = 0;
    if (s->position - s->punched < SPOOL_CHUNK || ioctl(s->pipe, FIONREAD, &unread) < 0)
        return;
    uint64_t read = s->position - (uint64_t)unread, step = cut_step(s->file);
    uint64_t whole = step ? read / step * step : 0;
    if (whole > s->punched && punch(s->file, s->punched, whole))
        s->punched = whole;
    FAULT_DIE(IN_CUT);
}

enum spool_flush spool_in_flush(struct spool_in *s)
{
    uint64_t waiting;
    while (s->pipe >= 0 && (waiting = spool_in_waiting(s)) > 0) {
        ssize_t n = spool_splice(s->file, s->pipe, waiting < SPOOL_CHUNK ? waiting : SPOOL_CHUNK);
        if (n < 0 && errno == EAGAIN)
            return SPOOL_WAITS;
        if (n <= 0)
            return SPOOL_DEAF;
        s->position += (uint64_t)n;
        FAULT_DIE(SPLICE_IN);
        spool_in_cut(s);
    }
    return s->pipe >= 0 ? SPOOL_DONE : SPOOL_DEAF;
}
