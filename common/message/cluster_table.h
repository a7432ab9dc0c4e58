/* common/message/cluster_table.h: the digest by which server and agent verify that they hold the
 * same cluster table, and the paired ports of a row. Pure. */
#ifndef TFE_COMMON_MESSAGE_CLUSTER_TABLE_H
#define TFE_COMMON_MESSAGE_CLUSTER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/msg.h"

/* Returns the 64-bit FNV-1a digest over each row's host, a NUL, and the port in two bytes
 * (big-endian), in rank order. A result of 0 becomes 1, because 0 means "no table". The digest
 * detects a lost or misplaced chunk, not an attack: frames are authenticated. */
uint64_t table_digest(const struct msg_row *rows, size_t n);

/* Returns the port of a row or, if turned, the other port of its pair. The two serve odd and even
 * epochs. */
static inline uint16_t table_port(uint16_t port, bool turned)
{
    return turned ? port ^ 1 : port;
}

#endif
