/* common/records/audit_chain.h: hash chain of the audit log. Each row contains the hash over all
 * earlier rows, so that a removed or changed row is detectable. */
#ifndef TFE_COMMON_RECORDS_AUDIT_CHAIN_H
#define TFE_COMMON_RECORDS_AUDIT_CHAIN_H

#include "common/message/msg.h"

#define AUDIT_HASH_CHARS 64

/* Computes the hash of a row that follows a row with hash `before` ("" for the first): BLAKE2b-256,
 * in hexadecimal, over `before` and all fields of the row except hash, in order, as text, each
 * followed by a newline. */
void audit_hash(const struct msg_audit_row *row, const char *before,
                char ret[AUDIT_HASH_CHARS + 1]);

#endif
