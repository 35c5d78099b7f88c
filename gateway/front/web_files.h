/* web_files -- the files of web/chat/dist/, embedded in the program when it is built.
 *
 * Thread:   any; all of it is constant.
 * Units:    n_web_files rows; a row of NULLs follows them.
 */
#ifndef GATEWAY_FRONT_WEB_FILES_H
#define GATEWAY_FRONT_WEB_FILES_H

#include <stdbool.h>
#include <stddef.h>

struct web_bytes {
    const unsigned char *p;
    size_t n;
};

struct web_file {
    const char *path; /* "/index.html" */
    const char *mime;
    struct web_bytes plain;
    struct web_bytes gzip; /* NULL if it would not be smaller */
    const char *hash;      /* of the plain bytes, in hexadecimal */
    bool is_immutable;     /* the hash is part of the path: other contents get another path */
};

extern const struct web_file web_files[];
extern const size_t n_web_files;

#endif
