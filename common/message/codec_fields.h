/* common/message/codec_fields.h: a row for each field of each message. Private to the codec and its
 * tests. */
#ifndef TFE_COMMON_MESSAGE_CODEC_FIELDS_H
#define TFE_COMMON_MESSAGE_CODEC_FIELDS_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/msg.h"

/* A number is also a flag, an enum or a time. A part is a message inside this one. */
enum codec_kind { CODEC_NUMBER, CODEC_TEXT, CODEC_BYTES, CODEC_PART, CODEC_LIST };

/* What the struct says of an optional field that is absent: 0, "", a part of zeros; MSG_UNSET; a
 * pointer that is NULL. Whatever holds this is not sent, but for a part of zeros. A part that may
 * be NULL is a pointer in the struct, any other part is embedded. */
enum codec_absent { CODEC_ZERO, CODEC_UNSET, CODEC_NULL };

/* How a field travels, whether it may be left out and which values an enum has is what protobuf-c's
 * descriptors of tfe.proto tell. A row holds what they do not know. */
struct codec_field {
    const char *name; /* in tfe.proto, for the test that compares */
    enum codec_kind kind;
    enum codec_absent absent;
    uint16_t at;     /* offset in the struct of msg.h */
    uint16_t beside; /* offset of a count of elements or bytes, or of the flag that tells absence;
                        0: neither */
    uint16_t size;   /* of a number, of a part, of a list's element */
    uint16_t few;    /* a list has so many elements … */
    uint16_t many;   /* … up to so many */
    bool is_late;    /* the elements of a list of messages travel behind all else (put_row) */
    uint64_t min;    /* of a number, of the length of a text, of those of a list */
    uint64_t max;
    bool (*is_legal)(const char *text); /* NULL: prose, of any characters (codec.h) */
    const struct codec_layout *part;    /* the part, or each element of a list of messages */
};

/* A message, or a part of one. */
struct codec_layout {
    const ProtobufCMessageDescriptor *descriptor;
    const struct codec_field *fields; /* by number, so the first is empty */
    size_t n_fields;
    size_t size; /* of the struct */
};

/* NULL where no message has the number. */
const struct codec_layout *codec_layout_of(enum tfe_msg_type type);

/* Whether the fields of a message agree, each of which is legal. */
bool codec_is_sound(const struct tfe_msg *msg);

#endif
