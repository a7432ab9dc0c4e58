/* common/message/codec.h: message structs to bytes and back (proto/tfe.proto behind a type byte).
 *
 * A new field of a message is a line in tfe.proto, a member in msg.h, a row in codec_fields.c and
 * its words in PROTOCOL.md; a new message begins in TFE_MSGS of msg.h. What does not agree is found
 * by tests/unit/message/test_codec_fields.c. */
#ifndef TFE_COMMON_MESSAGE_CODEC_H
#define TFE_COMMON_MESSAGE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/arena.h"
#include "common/message/msg.h"

/* Writes the type byte and the encoded message; never allocates. TFE_ETOOBIG: it does not fit
 * out_cap, nothing useful was written. TFE_EINVAL: a value is outside of what the protocol can say
 * (a bug of the caller). */
int codec_encode(const struct tfe_msg *msg, uint8_t *out, size_t out_cap,
                 size_t *ret_n) TFE_MUST_CHECK;

/* Encodes the rows of whole from first on, as many as fit out_cap and MSG_ROWS_PER_CHUNK, as one
 * TABLE of the same epoch, world and base; *ret_rows says how many, so the next call starts at
 * first + *ret_rows. Without rows left it is a TABLE of no rows (a table that did not change has
 * one such chunk). TFE_ETOOBIG: not even one row fits. TFE_EINVAL: as codec_encode, or first is
 * past the end. */
int codec_encode_table_chunk(const struct msg_table *whole, size_t first, uint8_t *out,
                             size_t out_cap, size_t *ret_n, size_t *ret_rows) TFE_MUST_CHECK;

/* Reads one message; every range, enum, id and string is checked (msg.h). What *ret borrows lives
 * in the arena until its next reset. TFE_EUNKNOWN: a type of a later version, to be ignored and
 * counted. TFE_EPROTO: malformed. TFE_ENOMEM: the arena's cap was reached, treat as malformed. *ret
 * is set on success only. No heap is used. Control characters in a tail or a sentence (all below
 * 0x20 but \n and \t, and 0x7f) arrive as '?', because they come from programs and end on
 * terminals; in every other text they are refused, as is a NUL anywhere. */
int codec_decode(struct arena *arena, const uint8_t *in, size_t n,
                 struct tfe_msg *ret) TFE_MUST_CHECK;

#endif
