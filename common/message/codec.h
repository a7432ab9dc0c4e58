/* common/message/codec.h: encodes message structs and decodes them (proto/tfe.proto behind a type
 * byte).
 *
 * A new field needs a line in tfe.proto, a member in msg.h, a row in codec_fields.c and its
 * description in PROTOCOL.md; a new message also a row in TFE_MSGS (msg_enums.h).
 * tests/unit/message/test_codec_fields.c finds inconsistencies. */
#ifndef TFE_COMMON_MESSAGE_CODEC_H
#define TFE_COMMON_MESSAGE_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/arena.h"
#include "common/message/msg.h"

/* Writes the type byte and the encoded message; never allocates. Returns TFE_ETOOBIG if the message
 * does not fit out_cap (out is then undefined), TFE_EINVAL if a value is outside the protocol's
 * range (a bug of the caller). */
int codec_encode(const struct tfe_msg *msg, uint8_t *out, size_t out_cap,
                 size_t *ret_n) TFE_MUST_CHECK;

/* Encodes the rows of `whole` from index first, as many as fit out_cap and MSG_ROWS_PER_CHUNK, as
 * one TABLE with the same epoch, world and base. *ret_rows is the number of rows encoded; the next
 * call starts at first + *ret_rows. If no rows are left the TABLE is empty, which is the one chunk
 * of an unchanged table. Returns TFE_ETOOBIG if not even one row fits, TFE_EINVAL as codec_encode
 * or if first is past the end. */
int codec_encode_table_chunk(const struct msg_table *whole, size_t first, uint8_t *out,
                             size_t out_cap, size_t *ret_n, size_t *ret_rows) TFE_MUST_CHECK;

/* Decodes one message and validates every range, enum, id and string (msg.h). Pointers in *ret
 * point into the arena and are valid until its next reset. Returns TFE_EUNKNOWN for a type of a
 * later version (ignore and count it), TFE_EPROTO if malformed, TFE_ENOMEM if the arena's cap is
 * reached (treat it as malformed). Sets *ret on success only and uses no heap. Control characters
 * in a tail or sentence (below 0x20 except newline and tab, and 0x7f) are replaced by '?', because
 * programs print them and terminals show them; in all other texts they are rejected, as is NUL
 * anywhere. */
int codec_decode(struct arena *arena, const uint8_t *in, size_t n,
                 struct tfe_msg *ret) TFE_MUST_CHECK;

#endif
