/* web_files -- the files of web/chat/, embedded in the program when it is built.
 *
 * Thread:   any; all of it is constant.
 * Units:    n_web_files rows; a row of NULLs follows them.
 */
#ifndef GATEWAY_WEB_FILES_H
#define GATEWAY_WEB_FILES_H

#include <stddef.h>

struct web_file {
    const char *path; /* "/index.html" */
    const char *mime;
    const unsigned char *bytes;
    size_t len;
    const char *etag; /* quoted, ready for the header; changes with the bytes */
};

extern const struct web_file web_files[];
extern const size_t n_web_files;

#endif
