/* The spools under kill -9: a "gateway" that moves bytes and lines is killed at random, and the
 * next one goes on from what is committed.  Both streams are compared byte by byte with what was
 * said.  HOLDFAST_KILLS: how many kills. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gateway/base/fault.h"
#include "gateway/processes/holder.h"
#include "gateway/processes/spool.h"
#include "tests/support/t.h"

/* The store: what is committed.  Each counter is a batch of its own. */
struct committed {
    uint64_t mark;    /* of stdout */
    uint64_t n_lines; /* that may be given to stdin */
    uint64_t n_taken; /* of which it is known that the pipe has them */
    uint64_t n_said;  /* bytes, by the program's own count, at its end */
    uint32_t ended;   /* stdout has, and all of it is committed */
    uint32_t enough;  /* no more kills: the program ends soon, and no line is added */
};

struct world {
    struct committed *disk;
    struct hold_page *page;
    int page_fd, spool_out, spool_in;
    int out[2], in[2];
};

static uint64_t n_kills(void)
{
    const char *given = getenv("HOLDFAST_KILLS");
    return given ? strtoull(given, NULL, 10) : 150;
}

static void *shared(size_t n)
{
    void *at = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

/* Byte i of what is said: from every eight bytes it can be told which they are. */
static char said_at(uint64_t i)
{
    uint64_t word = i / 8 * 0x9E3779B97F4A7C15u;
    return (char)(word >> (i % 8 * 8));
}

static void put_line(struct buf *out, uint64_t number)
{
    uint64_t state = number;
    size_t n = t_below(&state, number % 50 == 0 ? 20000 : 300);
    buf_putf(out, "%llu:", (unsigned long long)number);
    for (size_t i = 0; i < n; i++)
        buf_putc(out, (char)('a' + (number + i) % 26));
    buf_putc(out, '\n');
}

static pid_t child(void)
{
    pid_t pid = fork();
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static void pause_us(uint64_t us)
{
    struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

/* --- the program ------------------------------------------------------------------------------ */

static void open_world(struct world *w)
{
    *w = (struct world){.disk = shared(sizeof *w->disk)};
    w->page = holder_new_page("digest", &w->page_fd);
    w->spool_out = spool_new();
    w->spool_in = spool_new();
    assert_non_null(w->page);
    assert_true(w->spool_out >= 0 && w->spool_in >= 0);
    assert_int_equal(pipe2(w->out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(w->in, O_CLOEXEC), 0);
    assert_int_equal(fcntl(w->out[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(w->in[1], F_SETFL, O_NONBLOCK), 0);
}

static void close_world(struct world *w)
{
    int all[] = {w->page_fd, w->spool_out, w->spool_in, w->out[0], w->in[0]};
    for (size_t i = 0; i < countof(all); i++)
        close(all[i]);
    holder_unmap(w->page);
    munmap(w->disk, sizeof *w->disk);
}

/* Bursts and single lines, with pauses, as programs do. */
_Noreturn static void talk(const struct world *w, uint64_t seed)
{
    static char piece[400000];
    uint64_t at = 0;
    while (!w->disk->enough || at < 1000) {
        bool burst = t_below(&seed, 50) == 0;
        size_t n = 1 + t_below(&seed, burst ? sizeof piece - 1 : 3000);
        for (size_t i = 0; i < n; i++)
            piece[i] = said_at(at + i);
        for (size_t done = 0; done < n;) {
            ssize_t got = write(w->out[1], piece + done, n - done);
            if (got <= 0)
                _exit(1);
            done += (size_t)got;
        }
        at += n;
        if (t_below(&seed, 10) == 0)
            pause_us(t_below(&seed, 1000));
    }
    w->disk->n_said = at;
    _exit(0);
}

/* At most n bytes, now and then through a pipe of its own, which gets the very pages, and from
 * there later. */
static ssize_t read_late(int in, const int own[2], char *to, size_t n, uint64_t *seed)
{
    if (t_below(seed, 2) == 0)
        return read(in, to, n);
    ssize_t moved = splice(in, NULL, own[1], NULL, n, 0);
    if (moved <= 0)
        return moved;
    pause_us(t_below(seed, 3000));
    for (ssize_t got = 0; got < moved;) {
        ssize_t more = read(own[0], to + got, (size_t)(moved - got));
        if (more <= 0)
            _exit(2);
        got += more;
    }
    return moved;
}

/* Exit 0: every line came once, in order, and whole. */
_Noreturn static void listen_late(const struct world *w, uint64_t seed)
{
    static char got[65536];
    struct buf due = {0};
    uint64_t number = 0;
    size_t at = 0;
    ssize_t n;
    int own[2];
    close(w->in[1]);
    close(w->out[1]);
    if (pipe(own) < 0)
        _exit(2);
    while ((n = read_late(w->in[0], own, got, 1 + t_below(&seed, sizeof got), &seed)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (at == due.len) {
                buf_clear(&due);
                put_line(&due, ++number);
                at = 0;
            }
            if (got[i] != due.bytes[at++])
                _exit(3);
        }
        if (t_below(&seed, 5) == 0)
            pause_us(t_below(&seed, 3000));
    }
    _exit(n < 0 ? 4 : at != due.len ? 5 : number != w->disk->n_lines ? 6 : 0);
}

/* --- the gateway ------------------------------------------------------------------------------ */

/* The bytes must be those that were said there.  The rest waits, as half a line does. */
static void commit(struct world *w, struct spool_out *s, struct buf *read, size_t n)
{
    uint64_t mark = w->disk->mark;
    for (size_t i = 0; i < n; i++)
        if (read->bytes[i] != said_at(mark + i))
            _exit(13);
    __atomic_store_n(&w->disk->mark, mark + n, __ATOMIC_SEQ_CST);
    buf_consume(read, n);
    spool_out_settle(s, w->disk->mark);
}

static void give_lines(struct world *w, struct spool_in *s)
{
    struct buf line = {0};
    struct committed *disk = w->disk;
    if (!disk->enough && disk->n_lines < disk->n_taken + 100) /* one more is committed */
        __atomic_store_n(&disk->n_lines, disk->n_lines + 1, __ATOMIC_SEQ_CST);
    for (uint64_t n = hold_page_newest(w->page).number + 1; n <= disk->n_lines; n++) {
        buf_clear(&line);
        put_line(&line, n);
        if (!spool_in_put(s, n, 0, buf_str(&line)))
            break;
    }
    (void)spool_in_flush(s);
    while (hold_page_has_told(w->page, disk->n_taken + 1, s->position))
        __atomic_store_n(&disk->n_taken, disk->n_taken + 1, __ATOMIC_SEQ_CST);
    buf_done(&line);
}

/* False: stdout has ended. */
static bool take_bytes(struct world *w, struct spool_out *s, struct buf *read, uint64_t *seed)
{
    ssize_t n = spool_out_read(s, read);
    if (n < 0 && errno != EAGAIN)
        _exit(12);
    if (n == 0 || t_below(seed, 4) == 0)
        commit(w, s, read, read->len);
    else if (read->len > 10)
        commit(w, s, read, read->len - t_below(seed, 10));
    return n != 0;
}

static bool page_is_sound(const struct world *w)
{
    off_t position = lseek(w->spool_in, 0, SEEK_CUR);
    struct stat st;
    return fstat(w->spool_in, &st) == 0 &&
           hold_page_is_sound(w->page, (uint64_t)st.st_size, (uint64_t)position);
}

/* Until both streams are through. */
_Noreturn static void serve(struct world *w, uint64_t seed)
{
    struct spool_out out;
    struct spool_in in;
    struct buf read = {0};
    if (!page_is_sound(w) ||
        !spool_out_open(&out, w->page, w->out[0], w->spool_out, w->disk->mark) ||
        !spool_in_open(&in, w->page, w->in[1], w->spool_in))
        _exit(11);
    while (!w->disk->ended || !w->disk->enough || w->disk->n_taken < w->disk->n_lines) {
        if (!w->disk->ended && !take_bytes(w, &out, &read, &seed))
            w->disk->ended = 1;
        give_lines(w, &in);
        struct pollfd p[] = {{w->disk->ended ? -1 : w->out[0], POLLIN, 0},
                             {spool_in_waiting(&in) ? w->in[1] : -1, POLLOUT, 0}};
        poll(p, 2, (int)t_below(&seed, 3));
    }
    _exit(0);
}

/* Points at which a gateway dies by itself, in a build with faults; the narrow ones are never met
 * by chance. */
static const char *const points[] = {"die_splice_out",  "die_rewind_1",  "die_rewind_2",
                                     "die_rewind_3",    "die_punch",     "die_line_bytes",
                                     "die_line_number", "die_splice_in", "die_in_cut"};
static unsigned n_met[countof(points)];

#ifdef HOLDFAST_FAULTS
static void aim(size_t point, uint64_t *seed)
{
    char text[64];
    snprintf(text, sizeof text, "%s:%zu", points[point], 1 + t_below(seed, 2));
    setenv("HOLDFAST_FAULT", text, 1);
    if (fault_open())
        _exit(14);
}
#define AIMS true
#else
static void aim(size_t point, uint64_t *seed)
{
    (void)point, (void)seed;
}
#define AIMS false
#endif

static bool has_died(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* The exit status of the last gateway. */
static int kill_often(struct world *w, uint64_t *seed, uint64_t kills)
{
    int status = 0;
    for (uint64_t i = 0; i <= kills; i++) {
        uint64_t its = t_random(seed);
        size_t point = (size_t)(i / 2 % countof(points));
        bool aims = AIMS && i % 2 == 0 && i < kills;
        w->disk->enough = i == kills;
        pid_t pid = child();
        if (pid == 0 && aims)
            aim(point, &its);
        if (pid == 0)
            serve(w, its);
        for (int n = 0; aims && n < 5000 && !has_died(pid); n++)
            pause_us(200);
        n_met[point] += aims && has_died(pid);
        if (!aims && i < kills)
            pause_us(t_below(seed, 3000));
        if (i < kills)
            kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (i < kills && !WIFSIGNALED(status))
            break;
    }
    return status;
}

static void test_spool_kills_lose_and_double_nothing(void **state)
{
    struct world w;
    int status;
    (void)state;
    uint64_t seed = t_seed(), a = t_random(&seed), b = t_random(&seed);
    open_world(&w);
    pid_t talker = child();
    if (talker == 0)
        talk(&w, a);
    pid_t listener = child();
    if (listener == 0)
        listen_late(&w, b);
    close(w.out[1]);
    int last = kill_often(&w, &seed, n_kills());
    close(w.in[1]);
    assert_int_equal(last, 0);
    assert_int_equal(waitpid(talker, &status, 0), talker);
    assert_int_equal(status, 0);
    assert_int_equal(waitpid(listener, &status, 0), listener);
    assert_int_equal(status, 0);
    assert_int_equal(w.disk->mark, w.disk->n_said);
    for (size_t i = 0; AIMS && i < countof(points); i++)
        if (n_met[i] == 0)
            fail_msg("no gateway died at %s", points[i]);
    print_message("%llu bytes, %llu lines\n", (unsigned long long)w.disk->mark,
                  (unsigned long long)w.disk->n_lines);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spool_kills_lose_and_double_nothing),
    };
    return cmocka_run_group_tests_name("spool", tests, NULL, NULL);
}
