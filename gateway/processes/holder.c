#include "gateway/processes/holder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "gateway/base/fault.h"
#include "gateway/base/folders.h"

/* Design
 *
 *             the control ends           a connection
 *   GUIDED ──────────────────▶ ALONE ───────────────────▶ GUIDED
 *      └─ quit ─▶ exit           └─ keep_s ─▶ kill, exit
 *
 * The gateways take turns: the store's lock lets in one at a time, and no connection is accepted
 * while there is a control.  Each gateway gets copies of the descriptors; the holder's own remain,
 * so a second kill finds all of them again.  The socket is listened to by the gateway, so a
 * connection works from the moment that the name exists. */

#define HOLDER_NAME_AT 4  /* among its arguments */
#define BACKLOG 16        /* gateways that were killed right after they had connected */
#define LIVE ".live"      /* behind the name */
#define HELLO_AGAIN_MS 20 /* too many descriptors are on their way to the gateway */

/* The layout of each version is frozen, as the page's is. */
struct holder_hello {
    uint32_t magic, version; /* the page's */
    int32_t pid;
};

/* In this order they are sent. */
static const int sent[] = {HOLDER_IN,        HOLDER_OUT,      HOLDER_ERR,
                           HOLDER_SPOOL_OUT, HOLDER_SPOOL_IN, HOLDER_PAGE};
enum { HELLO_FDS = countof(sent) + 1 }; /* and the holder's pidfd */

/* --- the gateway's side ----------------------------------------------------------------------- */

int holder_open_folder(const char *data)
{
    struct buf path = {0};
    buf_putf(&path, "%s/agents", data);
    int fd = folders_make(path.bytes) ? open(path.bytes, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    int error = errno;
    buf_done(&path);
    errno = error;
    return fd;
}

/* A path through the descriptor: the folder's own may be too long for an address. */
static struct sockaddr_un address_of(int folder, const char *name, const char *suffix)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    ASSERT(strlen(name) < HOLDER_NAME);
    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s%s", folder, name, suffix);
    return a;
}

int holder_bind(int folder, const char *name)
{
    struct sockaddr_un a = address_of(folder, name, "");
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    (void)unlinkat(folder, name, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* 0, with a connection, or an errno. */
static int holder_connect(int folder, const char *name, const char *suffix, int *ret_fd)
{
    struct sockaddr_un a = address_of(folder, name, suffix);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
        *ret_fd = fd;
        return 0;
    }
    int error = errno;
    close(fd);
    return error;
}

enum holder_state holder_find(int folder, const char *name, int *ret_control)
{
    int fd = -1;
    int live = holder_connect(folder, name, LIVE, &fd);
    int bound = live == ENOENT ? holder_connect(folder, name, "", &fd) : 0;
    if (live == ENOENT && bound == ENOENT) /* it may be renamed right now */
        live = holder_connect(folder, name, LIVE, &fd);
    if (fd >= 0 && ret_control)
        *ret_control = fd;
    else if (fd >= 0)
        close(fd);
    if (fd >= 0)
        return HOLDER_LIVES;
    if (live == ECONNREFUSED)
        return HOLDER_GONE;
    if (live == ENOENT && bound == ECONNREFUSED)
        return HOLDER_NEVER_RAN;
    return live == ENOENT && bound == ENOENT ? HOLDER_NONE : HOLDER_UNREACHABLE;
}

static void close_all(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* The number of descriptors that came; the surplus is closed. */
static size_t take_descriptors(struct msghdr *m, int fds[HELLO_FDS])
{
    size_t n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (n < HELLO_FDS)
                fds[n++] = fd;
            else
                close(fd);
        }
    }
    return n;
}

static struct hold_page *map_page(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size != HOLD_PAGE_BYTES)
        return NULL;
    void *at = mmap(NULL, HOLD_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

struct hold_page *holder_new_page(const char *digest, int *ret_fd)
{
    struct hold_page *page = NULL;
    int fd = memfd_create("holdfast", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, HOLD_PAGE_BYTES) == 0)
        page = map_page(fd);
    if (page) {
        hold_page_init(page, digest);
        *ret_fd = fd;
    } else if (fd >= 0) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return page;
}

void holder_unmap(struct hold_page *page)
{
    if (page)
        munmap(page, HOLD_PAGE_BYTES);
}

/* fds: in the order of `sent`, then the pidfd; all are taken over. */
static bool accept_hello(int control, int fds[HELLO_FDS], struct supervisor *ret)
{
    struct hold_page *page = map_page(fds[5]);
    close(fds[5]);
    fds[5] = -1;
    struct stat in;
    off_t at = lseek(fds[4], 0, SEEK_CUR);
    if (!page || at < 0 || fstat(fds[4], &in) < 0 ||
        !hold_page_is_sound(page, (uint64_t)in.st_size, (uint64_t)at)) {
        holder_unmap(page);
        close_all(fds, HELLO_FDS);
        return false;
    }
    *ret = (struct supervisor){.pidfd = fds[6],
                               .control = control,
                               .stdio = {fds[0], fds[1], fds[2]},
                               .spool_out = fds[3],
                               .spool_in = fds[4],
                               .page = page};
    return true;
}

enum holder_answer holder_receive(int control, struct supervisor *ret)
{
    struct holder_hello hello;
    int fds[HELLO_FDS] = {-1, -1, -1, -1, -1, -1, -1};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof fds)];
    } extra;
    struct iovec text = {&hello, sizeof hello};
    struct msghdr m = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &extra, .msg_controllen = sizeof extra};
    ssize_t n;
    do
        n = recvmsg(control, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return HOLDER_WAITS;
    size_t n_fds = n > 0 ? take_descriptors(&m, fds) : 0;
    bool is_ours = n == (ssize_t)sizeof hello && hello.magic == HOLD_MAGIC &&
                   hello.version == HOLD_VERSION && n_fds == HELLO_FDS;
    if (!is_ours)
        close_all(fds, n_fds);
    if (!is_ours || !accept_hello(control, fds, ret))
        return HOLDER_REFUSED;
    ret->pid = hello.pid;
    return HOLDER_FOUND;
}

/* By its arguments, which supervisor_main has checked: "holdfast supervise FILES KEEP_S NAME …". */
static bool is_holder_of(const char *pid, const char *name)
{
    char path[300], text[512], *at = text;
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    for (int i = 0; i < HOLDER_NAME_AT && at < text + n; i++)
        at += strlen(at) + 1;
    return at < text + n && strcmp(at, name) == 0;
}

/* The descriptor first: so what has those arguments is what is continued. */
static void wake_if_holder(const char *pid, const char *name)
{
    int pidfd = (int)syscall(SYS_pidfd_open, (pid_t)strtol(pid, NULL, 10), 0);
    if (pidfd >= 0 && is_holder_of(pid, name))
        supervisor_wake(pidfd);
    if (pidfd >= 0)
        close(pidfd);
}

void holder_wake(const char *name)
{
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && is_holder_of(e->d_name, name))
            wake_if_holder(e->d_name, name);
    if (proc)
        closedir(proc);
}

bool holder_read(int control)
{
    char byte;
    ssize_t n;
    do /* a reset is reported before what was sent, and once */
        n = recv(control, &byte, 1, MSG_DONTWAIT);
    while (n > 0 || (n < 0 && (errno == EINTR || errno == ECONNRESET)));
    return n < 0 && errno == EAGAIN;
}

void holder_unlink_live(int folder, const char *name)
{
    char live[HOLDER_NAME + sizeof LIVE];
    snprintf(live, sizeof live, "%s" LIVE, name);
    (void)unlinkat(folder, live, 0);
}

void holder_unlink_bound(int folder, const char *name)
{
    (void)unlinkat(folder, name, 0);
}

bool holder_rename_live(int folder, const char *from, const char *to)
{
    char old[HOLDER_NAME + sizeof LIVE], fresh[HOLDER_NAME + sizeof LIVE];
    snprintf(old, sizeof old, "%s" LIVE, from);
    snprintf(fresh, sizeof fresh, "%s" LIVE, to);
    return renameat(folder, old, folder, fresh) == 0;
}

void holder_unlink(int folder, const char *name)
{
    holder_unlink_bound(folder, name);
    holder_unlink_live(folder, name);
}

/* --- the holder's side ------------------------------------------------------------------------ */

struct holder {
    struct tree tree; /* first: its ended finds the rest */
    struct hold_page *page;
    int control;   /* -1: alone */
    bool greets;   /* the control has not got its hello */
    bool must_end; /* the program was told to */
    bool has_tree; /* something of it may be left */
    uint32_t keep_ms;
    int64_t deadline; /* while it is alone */
};

static int64_t holder_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The page has changed. */
static void nudge(const struct holder *h)
{
    if (h->control >= 0 && !h->greets)
        (void)!send(h->control, "!", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void holder_on_ended(struct tree *t, int status)
{
    struct holder *h = (struct holder *)t;
    hold_page_report(h->page, t->error, status);
    FAULT_DIE(REPORT);
    nudge(h);
}

static void look_at_tree(struct holder *h)
{
    if (!h->has_tree || tree_reap(&h->tree))
        return;
    h->has_tree = false;
    hold_page_set(&h->page->gone);
    nudge(h);
}

static void end_tree(struct holder *h)
{
    if (h->has_tree)
        tree_kill(&h->tree);
    look_at_tree(h);
}

static void be_alone(struct holder *h)
{
    close(h->control);
    h->control = -1;
    h->deadline = holder_now_ms() + h->keep_ms;
    if (h->must_end || hold_page_is_set(&h->page->ends))
        end_tree(h);
}

static bool is_own_user(int fd)
{
    struct ucred peer;
    socklen_t n = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == geteuid();
}

/* False: it cannot be sent yet. */
static bool send_hello(const struct holder *h)
{
    struct holder_hello hello = {h->page->magic, h->page->version, getpid()};
    int pidfd = (int)syscall(SYS_pidfd_open, hello.pid, 0);
    int fds[HELLO_FDS];
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof fds)];
    } extra = {0};
    struct iovec text = {&hello, sizeof hello};
    struct msghdr m = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &extra, .msg_controllen = sizeof extra};
    memcpy(fds, sent, sizeof sent);
    fds[HELLO_FDS - 1] = pidfd;
    extra.head = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
    memcpy(CMSG_DATA(&extra.head), fds, sizeof fds);
    ssize_t n = pidfd < 0 ? -1 : sendmsg(h->control, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (pidfd >= 0)
        close(pidfd);
    return n > 0;
}

static void greet(struct holder *h)
{
    h->greets = !send_hello(h);
    if (!h->greets)
        nudge(h); /* it looks at the page in any case */
}

static void take_connection(struct holder *h)
{
    int fd = accept4(HOLDER_LISTENER, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (!is_own_user(fd)) {
        close(fd);
        return;
    }
    h->control = fd;
    greet(h);
}

/* Nothing is given to stdin any more: its end is to be seen there. The descriptor stays taken. */
static void end_stdin(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup3(null, HOLDER_IN, O_CLOEXEC) < 0)
        close(HOLDER_IN);
    if (null >= 0)
        close(null);
}

/* False: it is to quit. */
static bool take_command(struct holder *h)
{
    char command;
    ssize_t n = recv(h->control, &command, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET))
        return true; /* a reset is reported before what was sent, and once */
    if (n <= 0) {
        be_alone(h);
        return true;
    }
    switch ((enum supervisor_command)command) {
    case SUPERVISOR_TERM:
        h->must_end = true;
        tree_ask(&h->tree, false);
        break;
    case SUPERVISOR_KILL:
        h->must_end = true;
        end_tree(h);
        break;
    case SUPERVISOR_END_STDIN: end_stdin(); break;
    case SUPERVISOR_QUIT: return false;
    }
    return true;
}

static int holder_timeout(const struct holder *h)
{
    if (h->control >= 0)
        return h->greets ? HELLO_AGAIN_MS : -1;
    int64_t left = h->deadline - holder_now_ms();
    return left < 0 ? 0 : (int)left;
}

static void holder_watch(struct holder *h)
{
    for (;;) {
        look_at_tree(h);
        struct pollfd p[] = {
            {.fd = h->control >= 0 ? h->control : HOLDER_LISTENER, .events = POLLIN},
            {.fd = h->tree.signals, .events = POLLIN}};
        if (poll(p, countof(p), holder_timeout(h)) < 0 && errno != EINTR)
            return;
        tree_wait(&h->tree, 0);
        if (h->control >= 0 && h->greets)
            greet(h);
        if (p[0].revents && h->control < 0)
            take_connection(h);
        else if (p[0].revents && !take_command(h))
            return;
        else if (h->control < 0 && holder_now_ms() >= h->deadline)
            return;
    }
}

/* The program's own ends: it decides when they end. */
static void release_stdio(struct tree *t)
{
    (void)t;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < HOLDER_CONTROL; fd++)
        if (dup2(null, fd) < 0)
            close(fd);
    if (null >= 0)
        close(null);
}

/* 0 or an errno. */
static int begin(struct holder *h, char **command, const char *name)
{
    char live[HOLDER_NAME + sizeof LIVE];
    snprintf(live, sizeof live, "%s" LIVE, name);
    if (renameat(HOLDER_FOLDER, name, HOLDER_FOLDER, live) < 0)
        return errno;
    FAULT_DIE(RENAME);
    int error = tree_open(&h->tree);
    if (!error)
        error = tree_start(&h->tree, command, NULL, NULL);
    FAULT_DIE(FORK);
    return error;
}

void holder_run(char **command, const char *name, uint32_t keep_s)
{
    struct holder h = {.tree = {.ended = holder_on_ended, .release = release_stdio, .signals = -1},
                       .page = map_page(HOLDER_PAGE),
                       .control = HOLDER_CONTROL,
                       .has_tree = true,
                       .keep_ms = keep_s < INT32_MAX / 1000 ? keep_s * 1000 : INT32_MAX};
    if (!h.page)
        return;
    int error = begin(&h, command, name);
    if (error) { /* it stays, so that each gateway learns why */
        hold_page_report(h.page, error, 0);
        nudge(&h);
    }
    holder_watch(&h);
    end_tree(&h);
}
