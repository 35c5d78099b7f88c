/* count_agent -- says 0, 1, 2 …, one a second, until the file GATE is there.
 *
 *   count_agent GATE [text]
 *
 * As event lines, or with "text" as plain text. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char input[65536], line[128];
    if (argc < 2 || read(0, input, sizeof input) <= 0)
        return 2;
    const char *form = argc > 2 ? "%u " : "{\"event\":\"token\",\"data\":{\"text\":\"%u \"}}\n";
    for (unsigned i = 0; access(argv[1], F_OK) != 0; i++) {
        int n = snprintf(line, sizeof line, form, i);
        if (write(1, line, (size_t)n) != n)
            return 1;
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    return 0;
}
