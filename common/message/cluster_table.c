/* common/message/cluster_table.c: digest of a cluster table. */
#include "common/message/cluster_table.h"

#include <string.h>

static uint64_t add(uint64_t hash, uint8_t byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3);
}

uint64_t table_digest(const struct msg_row *rows, size_t n)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(rows[i].host) + 1; /* length with the NUL */
        for (size_t k = 0; k < len; k++) {
            hash = add(hash, (uint8_t)rows[i].host[k]);
        }
        hash = add(hash, (uint8_t)(rows[i].port >> 8));
        hash = add(hash, (uint8_t)(rows[i].port & 0xff));
        if (rows[i].role != TASK_WORKER || rows[i].first != 0) {
            hash = add(hash, (uint8_t)rows[i].role);
            for (unsigned shift = 0; shift < 32; shift += 8) {
                hash = add(hash, (uint8_t)(rows[i].first >> shift));
            }
        }
    }
    return hash ? hash : 1;
}
