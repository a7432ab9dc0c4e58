/* tests/unit/server/kept.h: an in-memory store behind the real writer and its thread, and access
 * to the stored rows. */
#ifndef TFE_TESTS_UNIT_SERVER_KEPT_H
#define TFE_TESTS_UNIT_SERVER_KEPT_H

#include <stdint.h>

#include "server/store/writer.h"

struct kept {
    struct event_base *base;
    struct writer *writer;
};

void kept_begin(struct kept *k, struct event_base *base);
void kept_end(struct kept *k);

/* Blocks the writer thread until kept_release. */
void kept_hold(struct kept *k);
void kept_release(struct kept *k);

/* Runs the loop until everything handed to the writer is written. */
void kept_settle(struct kept *k);

/* Returns the number of stored rows of a type (EVENT_ROW, AUDIT_ROW), at most max. *ret_last is
 * the newest row, borrowed until the next call. */
uint32_t kept_read(struct kept *k, enum tfe_msg_type type, uint32_t max, const void **ret_last);

#endif
