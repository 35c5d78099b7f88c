/* relay -- exec agents of the benchmark.
 *
 *   relay PATH    says what comes from the Unix socket PATH: the load generator is the agent
 *   relay obey    says one token, then nothing until SIGTERM, which it obeys at once
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void on_term(int number)
{
    (void)number;
    _exit(0);
}

static int obey(void)
{
    static const char token[] = "{\"event\":\"token\",\"data\":{\"text\":\"here\"}}\n";
    signal(SIGTERM, on_term);
    if (write(STDOUT_FILENO, token, sizeof token - 1) < 0)
        return 1;
    for (;;)
        pause();
}

static int relay(const char *path)
{
    static char bytes[65536];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at.sun_path)
        return 2;
    memcpy(at.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0) {
        perror(path);
        return 1;
    }
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
        for (ssize_t sent = 0, m; sent < n; sent += m)
            if ((m = write(STDOUT_FILENO, bytes + sent, (size_t)(n - sent))) <= 0)
                return 1;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: relay PATH|obey\n", stderr);
        return 2;
    }
    return strcmp(argv[1], "obey") == 0 ? obey() : relay(argv[1]);
}
