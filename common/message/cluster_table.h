/* common/message/cluster_table.h: the digest by which server and agent agree that they hold the
 * same cluster table, and how one follows from another. Pure. */
#ifndef TFE_COMMON_MESSAGE_CLUSTER_TABLE_H
#define TFE_COMMON_MESSAGE_CLUSTER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/msg.h"

/* FNV-1a, 64 bits, over each row's host, a NUL, and the port in two bytes (big-endian), rows in
 * order of rank; a result of 0 becomes 1, because 0 means "no table". It guards against a lost or
 * mixed-up chunk, not against an attacker: the frames are sealed. */
uint64_t table_digest(const struct msg_row *rows, size_t n);

/* The port of a row, or, turned, the other one of its pair: the two serve odd and even epochs. */
static inline uint16_t table_port(uint16_t port, bool turned)
{
    return turned ? port ^ 1 : port;
}

#endif
