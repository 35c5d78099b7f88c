#include "gateway/processes/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gateway/processes/children.h"
#include "gateway/processes/keep_folder.h"
#include "gateway/processes/spawn.h"
#include "gateway/processes/tree.h"

/* Design
 *
 *                  child ended            its output ended, or KEEPER_DRAIN_MS
 *   RUNNING ──────────────────▶ DRAINING ─────────────────────────────────────▶ the tree is killed,
 *      └─SIGTERM, timeout──▶ ENDING ──────▲   (KEEPER_GRACE_MS: SIGKILL)        the status written
 *
 * The keeper inherits the lock from the gateway, as descriptor 3: it never lives without the
 * lock. */

#define LOCK_FD 3
#define PTY_ROWS 30
#define PTY_COLUMNS 120
#define STATUS_TRIES 30            /* a second apart: the disk may be full */
#define ANY_FRAME (3 + UINT16_MAX) /* bytes: the most that a head can announce */

/* --- the gateway's side ----------------------------------------------------------------------- */

static int keeper_refuse(char ret_error[256], const char *what, int error)
{
    snprintf(ret_error, 256, "cannot start a command: %s: %s", what, strerror(error));
    return -1;
}

/* The lock, above the descriptors that the spawn fills; or a negative errno. */
static int open_lock(int folder)
{
    int low = openat(folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (low < 0)
        return -errno;
    int fd = fcntl(low, F_DUPFD_CLOEXEC, LOCK_FD + 1);
    int error = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? errno : 0;
    close(low);
    if (!error)
        return fd;
    if (fd >= 0)
        close(fd);
    return -error;
}

static int keeper_launch(const char *path, int lock, char **env, const char *self, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    char name[] = "holdfast", verb[] = "keep";
    char *argv[] = {name, verb, (char *)(uintptr_t)path, NULL};

    posix_spawn_file_actions_init(&actions);
    int error = 0;
    for (int fd = 0; fd < LOCK_FD && !error; fd++)
        error = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, lock, LOCK_FD);
    if (!error)
        error = posix_spawn_file_actions_addclosefrom_np(&actions, LOCK_FD + 1);
    if (!error)
        error = spawn_session(self, &actions, argv, env, ret_pid);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

int keeper_spawn(const char *path, int folder, char **env, const char *self, pid_t *ret_pid,
                 char ret_error[256])
{
    if (mkfifoat(folder, "input", 0600) < 0)
        return keeper_refuse(ret_error, "its FIFO", errno);
    int lock = open_lock(folder);
    if (lock < 0)
        return keeper_refuse(ret_error, "its lock", -lock);
    int error = keeper_launch(path, lock, env, self, ret_pid);
    close(lock);
    if (error)
        return keeper_refuse(ret_error, "its keeper", error);
    int pidfd = (int)syscall(SYS_pidfd_open, *ret_pid, 0); /* sets close-on-exec */
    if (pidfd >= 0)
        return pidfd;
    error = errno;
    kill(*ret_pid, SIGKILL); /* unreaped, so the pid is still its own */
    children_reap(P_PID, (id_t)*ret_pid, 0, &(siginfo_t){0});
    return keeper_refuse(ret_error, "a descriptor", error);
}

void keeper_discard(int pidfd)
{
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    children_reap(P_PIDFD, (id_t)pidfd, 0, &(siginfo_t){0});
    close(pidfd);
}

/* --- the keeper's side ------------------------------------------------------------------------ */

struct keeper {
    struct tree tree; /* first: tree.ended finds the rest */
    int folder;
    struct keep_spec spec;
    struct keep_status status;
    int ring;
    uint64_t total;
    int out, in; /* our ends; the same descriptor for a pty; -1: closed */
    int fifo;
    int child_end[3]; /* become the program's 0, 1 and 2 */
    char frames[ANY_FRAME];
    size_t n_frames;
    struct buf queue; /* for its stdin */
    bool close_in;    /* after the queue */
    bool ended;       /* the direct child has ended */
    int exit_status;
    bool asked;   /* asked to end */
    int64_t due;  /* time of the next step; 0: none */
    int64_t look; /* when to check that the folder still exists */
    struct bounds_watch bounds;
    bool finishing; /* the grace, or the drain, is over */
};

static int64_t now_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void keeper_on_ended(struct tree *t, int status)
{
    struct keeper *k = container_of(t, struct keeper, tree);
    k->ended = true;
    k->exit_status = status;
    k->due = now_ms(CLOCK_MONOTONIC) + KEEPER_DRAIN_MS;
}

/* Then no gateway can find this keeper any more. */
static bool folder_is_gone(const struct keeper *k)
{
    struct stat st;
    return fstat(k->folder, &st) == 0 && st.st_nlink == 0;
}

static bool write_status(struct keeper *k)
{
    for (int i = 0; i < STATUS_TRIES; i++) {
        if (keep_status_write(k->folder, &k->status))
            return true;
        if (folder_is_gone(k))
            return false;
        struct timespec second = {.tv_sec = 1};
        nanosleep(&second, NULL);
    }
    return false;
}

/* --- starting --------------------------------------------------------------------------------- */

static bool open_pty(struct keeper *k)
{
    struct winsize size = {.ws_row = PTY_ROWS, .ws_col = PTY_COLUMNS};
    char name[64];
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0)
        return false;
    k->out = k->in = master;
    if (grantpt(master) || unlockpt(master) || ptsname_r(master, name, sizeof name))
        return false;
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return false;
    ioctl(slave, TIOCSWINSZ, &size);
    for (int i = 0; i < 3; i++)
        k->child_end[i] = slave;
    return true;
}

static bool open_pipes(struct keeper *k)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        return false;
    k->in = in[1];
    k->out = out[0];
    k->child_end[0] = in[0];
    k->child_end[1] = k->child_end[2] = out[1];
    return true;
}

/* Called in the program, before exec. */
static int prepare(void *arg)
{
    const struct keeper *k = arg;
    if (k->spec.pty)
        ioctl(k->child_end[0], TIOCSCTTY, 0);
    for (int i = 0; i < 3; i++)
        if (dup2(k->child_end[i], i) < 0)
            return errno;
    if (k->spec.cwd && chdir(k->spec.cwd) < 0)
        return errno;
    return bounds_enter(&k->bounds);
}

static void leave_ends(struct tree *t)
{
    const struct keeper *k = container_of(t, const struct keeper, tree);
    for (int i = 0; i < 3; i++)
        if (i == 0 || k->child_end[i] != k->child_end[i - 1])
            close(k->child_end[i]);
}

static int keeper_start(struct keeper *k)
{
    if (k->ring < 0 || k->fifo < 0)
        return ENOENT;
    if (!(k->spec.pty ? open_pty(k) : open_pipes(k)))
        return errno;
    bounds_open(&k->bounds, &k->spec.bounds, k->spec.folder, k->spec.cgroup,
                now_ms(CLOCK_MONOTONIC));
    int error = tree_start(&k->tree, k->spec.argv.list, prepare, k);
    fcntl(k->out, F_SETFL, O_NONBLOCK);
    fcntl(k->in, F_SETFL, O_NONBLOCK);
    return error;
}

/* --- in and out ------------------------------------------------------------------------------- */

static void close_in(struct keeper *k)
{
    if (k->in >= 0 && k->in != k->out)
        close(k->in);
    k->in = -1;
    k->queue.len = 0;
    if (k->spec.background)
        keep_put_closed(k->folder);
}

/* False when there is nothing to read now. */
static bool read_out(struct keeper *k)
{
    static char chunk[KEEP_CHUNK];
    ssize_t n = read(k->out, chunk, sizeof chunk);
    if (n > 0) { /* output that the disk refuses is dropped: the command must not wait for it */
        (void)!keep_ring_put(k->ring, &k->total, chunk, (size_t)n);
        return true;
    }
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (k->in == k->out) /* a pty */
        k->in = -1;
    close(k->out); /* its end; EIO of a pty is one too */
    k->out = -1;
    return false;
}

static void write_in(struct keeper *k)
{
    while (k->in >= 0 && k->queue.len) {
        ssize_t n = write(k->in, k->queue.bytes, k->queue.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            close_in(k);
            return;
        }
        buf_consume(&k->queue, (size_t)n);
    }
    if (k->close_in && k->in >= 0)
        close_in(k);
}

static void ask_to_end(struct keeper *k, enum keep_state why)
{
    if (k->asked || k->ended)
        return;
    k->asked = true;
    k->status.state = why;
    k->due = now_ms(CLOCK_MONOTONIC) + KEEPER_GRACE_MS;
    tree_ask(&k->tree, k->spec.sandboxed);
}

static void take_frame(struct keeper *k, char kind, struct str bytes)
{
    static const char end_of_transmission = 4;
    if (kind == KEEP_KILL)
        ask_to_end(k, KEEP_KILLED);
    if (kind == KEEP_WRITE && k->in >= 0 && !k->close_in)
        buf_putstr(&k->queue, bytes);
    if (kind == KEEP_CLOSE && k->spec.pty && k->in >= 0)
        buf_put(&k->queue, &end_of_transmission, 1);
    else if (kind == KEEP_CLOSE)
        k->close_in = true;
    write_in(k);
}

static void read_frames(struct keeper *k)
{
    ssize_t n = read(k->fifo, k->frames + k->n_frames, sizeof k->frames - k->n_frames);
    if (n <= 0)
        return;
    k->n_frames += (size_t)n;
    size_t at = 0;
    while (k->n_frames - at >= 3) {
        const unsigned char *head = (const unsigned char *)k->frames + at;
        size_t len = head[1] | (size_t)head[2] << 8;
        if (k->n_frames - at < 3 + len)
            break;
        take_frame(k, (char)head[0], (struct str){k->frames + at + 3, len});
        at += 3 + len;
    }
    memmove(k->frames, k->frames + at, k->n_frames - at);
    k->n_frames -= at;
}

/* --- the loop --------------------------------------------------------------------------------- */

static void on_due(struct keeper *k)
{
    if (k->ended) {
        k->finishing = true; /* the child is gone: stop waiting for others that still hold it */
    } else if (k->asked) {
        k->finishing = true;
    } else {
        ask_to_end(k, KEEP_TIMED_OUT);
    }
}

static int poll_ms(const struct keeper *k)
{
    int64_t next = k->bounds.due < k->look ? k->bounds.due : k->look;
    if (k->due && k->due < next)
        next = k->due;
    int64_t left = next - now_ms(CLOCK_MONOTONIC);
    return left < 0 ? 0 : (int)left;
}

static void look_at_folder(struct keeper *k)
{
    int64_t now = now_ms(CLOCK_MONOTONIC);
    if (now < k->look)
        return;
    k->look = now + KEEPER_LOOK_MS;
    k->finishing |= folder_is_gone(k);
}

static void look_at_bounds(struct keeper *k)
{
    char why[BOUNDS_WHY];
    if (!bounds_look(&k->bounds, now_ms(CLOCK_MONOTONIC), why) || k->asked || k->ended)
        return;
    snprintf(k->status.error, sizeof k->status.error, "%s", why);
    ask_to_end(k, KEEP_KILLED);
}

static void turn(struct keeper *k)
{
    struct pollfd p[] = {
        {.fd = k->tree.signals, .events = POLLIN},
        {.fd = k->out, .events = POLLIN},
        {.fd = k->queue.len < KEEPER_QUEUE ? k->fifo : -1, .events = POLLIN},
        {.fd = k->in, .events = k->queue.len ? POLLOUT : 0}, /* or whether anybody reads it */
    };

    poll(p, countof(p), poll_ms(k));
    if (tree_wait(&k->tree, 0))
        ask_to_end(k, KEEP_KILLED);
    tree_reap(&k->tree);
    if (p[1].revents)
        read_out(k);
    if (p[2].revents)
        read_frames(k);
    if (p[3].revents & POLLOUT)
        write_in(k);
    if (p[3].revents & POLLERR && k->in >= 0 && k->in != k->out)
        close_in(k);
    if (k->ended && k->out < 0)
        k->finishing = true;
    else if (k->due && now_ms(CLOCK_MONOTONIC) >= k->due)
        on_due(k);
    look_at_folder(k);
    look_at_bounds(k);
}

/* Reads the rest of the pipe when nobody is left to write to it. */
static void drain(struct keeper *k)
{
    for (size_t got = 0; k->out >= 0 && got < KEEP_RING; got += KEEP_CHUNK)
        if (!read_out(k))
            return;
}

/* Skips the exit handlers of all the gateway's libraries: one that waits would keep this process
 * for ever. */
_Noreturn static void leave(int code)
{
    _exit(code);
}

_Noreturn static void keeper_fail(struct keeper *k, int error)
{
    k->status.state = KEEP_FAILED;
    k->status.has_exit_code = true;
    k->status.exit_code = -1;
    k->status.ended_at = now_ms(CLOCK_REALTIME);
    snprintf(k->status.error, sizeof k->status.error, "%s", strerror(error));
    (void)write_status(k);
    leave(1);
}

static void keeper_conclude(struct keeper *k)
{
    struct keep_status *s = &k->status;
    char why[BOUNDS_WHY];
    s->ended_at = now_ms(CLOCK_REALTIME);
    s->has_exit_code = true;
    if (bounds_close(&k->bounds, why) && !k->asked) {
        s->state = KEEP_KILLED;
        s->exit_code = -SIGKILL;
        snprintf(s->error, sizeof s->error, "%s", why);
    } else if (k->asked) {
        s->exit_code = -SIGTERM;
    } else if (k->tree.error) {
        keeper_fail(k, k->tree.error);
    } else {
        s->state = KEEP_EXITED;
        s->exit_code =
            WIFSIGNALED(k->exit_status) ? -WTERMSIG(k->exit_status) : WEXITSTATUS(k->exit_status);
    }
    (void)write_status(k);
}

int keeper_main(int argc, char **argv)
{
    struct keeper *k = xcalloc(sizeof *k);

    k->tree.ended = keeper_on_ended;
    k->tree.release = leave_ends;
    k->out = k->in = -1;
    k->folder = argc == 3 ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (k->folder < 0 || fcntl(LOCK_FD, F_SETFD, FD_CLOEXEC) < 0 ||
        !keep_spec_read(k->folder, &k->spec)) {
        fprintf(stderr, "holdfast keep: only the gateway itself starts this\n");
        return 2;
    }
    k->status.keeper = getpid();
    k->status.keeper_ticks = process_start_ticks(getpid());
    if (!write_status(k)) /* without one the next gateway would begin the command again */
        leave(1);
    spawn_set_files((uint64_t)k->spec.files);
    int error = tree_open(&k->tree);
    k->ring = keep_ring_open(k->folder, true);
    k->fifo = openat(k->folder, "input", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (!error)
        error = keeper_start(k);
    if (error)
        keeper_fail(k, error);
    if (!k->spec.background && !k->spec.pty)
        close_in(k); /* a program that waits for input gets none: a question would stay for ever */
    k->status.pid = k->tree.program;
    k->status.pid_ticks = process_start_ticks(k->tree.program);
    (void)write_status(k);
    if (k->spec.timeout_ms && !k->ended)
        k->due = now_ms(CLOCK_MONOTONIC) + k->spec.timeout_ms;
    while (!k->finishing)
        turn(k);
    tree_kill(&k->tree);
    drain(k);
    keeper_conclude(k);
    leave(0);
}
