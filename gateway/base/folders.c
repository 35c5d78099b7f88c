#include "gateway/base/folders.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

bool folders_make(const char *path)
{
    char *part = xstrdup(str_of(path));
    bool good = true;
    for (char *slash = part; slash && good;) {
        slash = strchr(slash + 1, '/');
        if (slash)
            *slash = 0;
        good = mkdir(part, 0700) == 0 || errno == EEXIST;
        if (slash)
            *slash = '/';
    }
    free(part); /* preserves errno */
    return good;
}

bool folders_put_state(struct buf *out)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool has_state = state && state[0] == '/', has_home = home && home[0] == '/';
    if (has_state)
        buf_putf(out, "%s/holdfast", state);
    else if (has_home)
        buf_putf(out, "%s/.local/state/holdfast", home);
    errno = ENOENT;
    return has_state || has_home;
}
