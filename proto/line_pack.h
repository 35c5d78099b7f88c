/* line_pack -- event lines without what can be derived, for a store that keeps them.
 *
 * Shape:    packed := 1, size, task id (26 bytes), first seq, first ts, line*
 *           line   := op, change of ts (zigzag; only if op says so), length, bytes
 *
 *           Numbers are varints, size is that of the lines, and the op has the kind of line in its
 *           low six bits.  A kind stands for all of a line that event_line writes but the bytes of
 *           its data, or only those between the quotes where the data is {"text":"…"}; the seq is
 *           one more than the line's before.  A line that is of no kind in any byte is stored
 *           whole.  Where data repeats the longest string of the last long line, the op says so,
 *           and behind the length stand the string's place in the data, its length, and its place
 *           in that line.
 *
 *           Lines that would become no shorter stay as they are.  Lines begin with '{' and packed
 *           bytes with their version, so that both can stand in one place.
 * Thread:   any.
 * Errors:   damaged bytes are refused, whatever they are; nothing outside of bounds is touched.
 */
#ifndef PROTO_LINE_PACK_H
#define PROTO_LINE_PACK_H

#include "proto/buf.h"

#define LINE_PACK_MOST (1u << 24) /* bytes of lines: more stay as they are */

/* Appends whole lines of one task, packed or as they are. */
void line_pack(struct buf *out, struct str lines);
static inline bool line_pack_is(struct str bytes)
{
    return bytes.n > 0 && (unsigned char)bytes.p[0] < '\n';
}
/* The size of the lines in bytes that line_pack appended; false when they are damaged. */
bool line_pack_size(struct str bytes, size_t *ret) MUST_USE;
/* Writes the lines, which have this size.  False when the bytes are damaged: then any of these n
 * may have changed. */
bool line_unpack(struct str bytes, char *to, size_t n) MUST_USE;
/* Appends the lines; false when the bytes are damaged, and then nothing was appended. */
bool line_unpack_to(struct buf *out, struct str bytes) MUST_USE;

#endif
