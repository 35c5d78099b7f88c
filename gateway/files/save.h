/* save -- a file that an agent gives: from bytes, or from a path.
 *
 * Shape:    an upload (upload.h) whose peer is the gateway itself.  A key names the try: the same
 *           key gives the same file, over restarts too.
 * Thread:   loop.
 * Owns:     the save, until save_drop, which is called once: after done, or instead of it.
 * Errors:   done gets a sentence.
 */
#ifndef GATEWAY_FILES_SAVE_H
#define GATEWAY_FILES_SAVE_H

#include "core/tool.h"
#include "gateway/files/files.h"

/* Nothing is called from inside.  The plan is copied. */
struct file_save *save_begin(struct files *f, const struct file_plan *plan, lender_saved done,
                             void *user);
void save_drop(struct file_save *s);

/* The tool that gives a file by its path (PROTOCOL.md section 8): its output is the file. */
void file_tool_init(struct tool *tool, struct files *files);

#endif
