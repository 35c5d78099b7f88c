/* folder_size -- how much of the disk a folder takes.
 *
 * Shape:    one walk, which ends early when the total is too much.  It follows no link, stays on
 *           the folder's file system, and counts a file with several names once over all of them.
 * Thread:   any; it reads directories, and waits for the disk.
 * Errors:   unreadable files count nothing.  A directory that its owner may not read (because a
 *           command has changed it) is first made readable; otherwise it could hide files.
 */
#ifndef GATEWAY_PROCESSES_FOLDER_SIZE_H
#define GATEWAY_PROCESSES_FOLDER_SIZE_H

#include "proto/base.h"

#define FOLDER_DEPTH 256 /* nested directories; deeper ones count as too much */

/* Whether the folder takes more than max bytes of its disk. */
bool folder_exceeds(const char *path, uint64_t max);

#endif
