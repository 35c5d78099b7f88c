/* kept_agent -- says LINES lines in writes of TURN lines; with TURN 0 as fast as it can.
 *
 *   kept_agent LINES TURN BYTES
 *   kept_agent CALLS call
 *
 * A write comes when the pipe is empty, so each of the gateway's reads finds TURN lines.  The
 * second one calls the calculator so often, each time when it has heard the last result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define FLOOD 300 /* lines of a write */

static char line[4096], piece[FLOOD * sizeof line];

static void say(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(1, bytes, n);
        if (done <= 0)
            _exit(1);
        bytes += done;
        n -= (size_t)done;
    }
}

static void wait_for_reader(void)
{
    int unread = 1;
    while (ioctl(1, FIONREAD, &unread) == 0 && unread > 0)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

static void call(long calls)
{
    for (long i = 0; i < calls; i++) {
        int n = snprintf(line, sizeof line,
                         "{\"call\":\"tool\",\"call_id\":\"%ld\",\"name\":\"calculator\","
                         "\"arguments\":{\"expression\":\"6*7\"}}\n",
                         i);
        say(line, (size_t)n);
        if (read(0, piece, sizeof piece) <= 0)
            _exit(3);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[2], "call") == 0) {
        if (read(0, piece, sizeof piece) <= 0)
            return 3;
        call(strtol(argv[1], NULL, 10));
        return 0;
    }
    if (argc < 4)
        return 2;
    long lines = strtol(argv[1], NULL, 10), turn = strtol(argv[2], NULL, 10);
    int bytes = (int)strtol(argv[3], NULL, 10);
    long each = turn > 0 && turn < FLOOD ? turn : FLOOD;
    int n = snprintf(line, sizeof line, "{\"event\":\"token\",\"data\":{\"text\":\"%0*d\"}}\n",
                     bytes, 7);
    if (read(0, piece, sizeof piece) <= 0)
        return 3;
    for (long i = 0; i < each; i++)
        memcpy(piece + i * n, line, (size_t)n);
    for (long said = 0; said < lines; said += each) {
        long now = lines - said < each ? lines - said : each;
        say(piece, (size_t)now * (size_t)n);
        if (turn > 0)
            wait_for_reader();
    }
    say("{\"event\":\"final_answer\",\"data\":{\"output\":\"\"}}\n", 47 - 4);
    return 0;
}
