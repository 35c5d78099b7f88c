/* acp_files -- the files that an ACP agent reads and writes through its client: those below one
 * folder, and no others.
 *
 * Shape:    acp_files_port is struct acp_files (proto/forms/acp.h) for a struct acp_folder.
 * Safety:   the kernel walks the path below the folder (openat2, RESOLVE_BENEATH): no "..", no link
 *           and no mount leads out, also when something is renamed meanwhile.  Plain files alone.
 *           It reads the files that are lent to it, too.
 * Limits:   ACP_FILE bytes.
 * Thread:   loop.  Calls read or write one local file.
 * Owns:     the descriptor; acp_folder_close closes it.
 */
#ifndef GATEWAY_AGENTS_ACP_FILES_H
#define GATEWAY_AGENTS_ACP_FILES_H

#include "proto/forms/acp.h"

#define ACP_FILE (4 * 1024 * 1024) /* bytes of a file */

struct acp_folder {
    char *path; /* absolute, resolved */
    int fd;
    struct buf lent; /* paths of files of the message, each with a NUL */
};

extern const struct acp_files acp_files_port; /* its arg is a struct acp_folder */

/* Takes the path, also on failure. */
bool acp_folder_open(struct acp_folder *f, char *path) MUST_USE;
void acp_folder_close(struct acp_folder *f);

#endif
