/* common/channel/audit_chain.h: what holds the rows of the audit together: each names the hash of
 * all before it. */
#ifndef TFE_COMMON_CHANNEL_AUDIT_CHAIN_H
#define TFE_COMMON_CHANNEL_AUDIT_CHAIN_H

#include "common/message/msg.h"

#define AUDIT_HASH_CHARS 64

/* The hash of a row behind one of hash `before` ("" before the first): BLAKE2b-256 of that and the
 * row's fields in their order, all but hash, as text, each with a newline behind it; hexadecimal.
 */
void audit_hash(const struct msg_audit_row *row, const char *before,
                char ret[AUDIT_HASH_CHARS + 1]);

#endif
