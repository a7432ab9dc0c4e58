/* common/wire/codec_parts.h: what the codec's files share: packing, unpacking into an arena, texts.
 * Private to common/wire. */
#ifndef TFE_COMMON_WIRE_CODEC_PARTS_H
#define TFE_COMMON_WIRE_CODEC_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/msg.h"
#include "common/wire/arena.h"
#include "tfe.pb-c.h"

/* Where encoded bytes go. */
struct codec_out {
    uint8_t *at;
    size_t left;
};

/* Where a message comes from, and the arena that holds what it becomes. */
struct codec_in {
    struct arena *arena;
    ProtobufCAllocator allocator; /* of the arena; never frees */
    bool is_exhausted;            /* the arena said no */
    const uint8_t *body;
    size_t n;
};

/* Appends pb. TFE_ETOOBIG: does not fit, nothing appended. */
int codec_pack(struct codec_out *out, const ProtobufCMessage *pb) TFE_MUST_CHECK;

/* Parses the body as one message of the descriptor; it lives in the arena. TFE_EPROTO, TFE_ENOMEM.
 */
int codec_unpack(struct codec_in *in, const ProtobufCMessageDescriptor *descriptor,
                 void *ret_pb) TFE_MUST_CHECK;

/* Room in the arena for count objects of size bytes. TFE_ENOMEM. ret points to a pointer. */
int codec_array(struct codec_in *in, size_t count, size_t size, void *ret) TFE_MUST_CHECK;

/* Names must be refused where they hold control characters; prose comes from programs and has them
 * replaced by '?' (codec.h). */
enum codec_text_kind { CODEC_NAME, CODEC_PROSE };

/* The bytes as a NUL-terminated text in the arena. TFE_EPROTO: a NUL inside. TFE_ENOMEM. */
int codec_text(struct codec_in *in, const ProtobufCBinaryData *bytes, enum codec_text_kind kind,
               const char **ret) TFE_MUST_CHECK;

/* The same, but "" (or NULL) where the sender left the field out. */
int codec_text_or(struct codec_in *in, protobuf_c_boolean has, const ProtobufCBinaryData *bytes,
                  enum codec_text_kind kind, const char *otherwise,
                  const char **ret) TFE_MUST_CHECK;

/* protobuf-c's structs have no const; packing does not write through these. */
ProtobufCBinaryData codec_bytes(const char *text);
uint32_t *codec_numbers(const uint32_t *numbers);

/* Lists of ports are 32-bit numbers on the wire: out into room for MSG_NPROC_MAX (n was checked),
 * and back into the arena. TFE_EPROTO: too many, or one that is no port number. TFE_ENOMEM. */
void codec_widen_ports(const uint16_t *ports, size_t n, uint32_t ret[MSG_NPROC_MAX]);
int codec_take_ports(struct codec_in *in, const uint32_t *numbers, size_t n,
                     const uint16_t **ret) TFE_MUST_CHECK;

/* PROCESSES is a message and a part of STATUS_NODE, EXITED one and a part of JOIN. pb is
 * initialised here and borrows from m. */
void codec_fill_processes(const struct msg_processes *m, Tfe__Processes *pb);
void codec_take_processes(const Tfe__Processes *pb, struct msg_processes *ret);
void codec_fill_exited(const struct msg_exited *m, Tfe__Exited *pb);
int codec_take_exited(struct codec_in *in, const Tfe__Exited *pb,
                      struct msg_exited *ret) TFE_MUST_CHECK;

/* One row of a table, alone: what codec_check_table says of each. */
bool codec_check_row(const struct msg_row *row, uint32_t world);

/* Epoch, world: what a table says of itself besides rows. */
bool codec_check_table_head(const struct msg_table *m);

/* A wish, or a time, that is MSG_UNSET is not sent. */
#define PUT_WISH(pb, m, field) ((pb).has_##field = (m)->field != MSG_UNSET, (pb).field = (m)->field)
#define GET_WISH(pb, field) ((pb)->has_##field ? (pb)->field : MSG_UNSET)

/* Nor is a zero (of a flag: false) where the .proto has default 0. */
#define PUT_NONZERO(pb, m, field) ((pb).has_##field = (m)->field != 0, (pb).field = (m)->field)

/* For each message: put encodes (TFE_ETOOBIG), get decodes (TFE_EPROTO, TFE_ENOMEM), check says
 * whether every value is in its range (msg.h, PROTOCOL.md); get leaves that to check, but for what
 * the struct cannot hold. */
#define CODEC_DECLARE(NAME, name, number, sender)                                                  \
    int codec_put_##name(const struct msg_##name *m, struct codec_out *out) TFE_MUST_CHECK;        \
    int codec_get_##name(struct codec_in *in, struct msg_##name *ret) TFE_MUST_CHECK;              \
    bool codec_check_##name(const struct msg_##name *m);
TFE_MSGS(CODEC_DECLARE)
#undef CODEC_DECLARE

#endif
