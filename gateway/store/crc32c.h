/* crc32c -- the checksum of what the store keeps: CRC-32C (Castagnoli), as in RFC 3720, section
 * 12.1.
 *
 * Shape:    one pure function.  The processor's own instruction where it has one (SSE 4.2, the CRC
 *           extension of ARMv8), else a table: the values are the same everywhere.
 * Thread:   any.
 * Errors:   none.
 */
#ifndef GATEWAY_STORE_CRC32C_H
#define GATEWAY_STORE_CRC32C_H

#include "proto/base.h"

/* crc: of the bytes before these, 0 for none; so a text may be summed piece by piece. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t n);

/* For the test alone: the same by table, whatever the processor has. */
uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t n);

#endif
