/* crc32c -- the checksum of everything in the store: CRC-32C (Castagnoli), as in RFC 3720, section
 * 12.1.
 *
 * Shape:    one pure function.  It uses the processor's own instruction if there is one (SSE 4.2,
 *           the CRC extension of ARMv8), or a table: the values are the same everywhere.
 * Thread:   any.
 * Errors:   none.
 */
#ifndef GATEWAY_STORE_CRC32C_H
#define GATEWAY_STORE_CRC32C_H

#include "proto/base.h"

/* crc: the sum of the preceding bytes, 0 for none; so a text may be summed piece by piece. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

/* Only for the test: the same by table, on any processor. */
uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t n);

#endif
