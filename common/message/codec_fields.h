/* common/message/codec_fields.h: the table of the fields of each message. Private to the codec and
 * its tests. */
#ifndef TFE_COMMON_MESSAGE_CODEC_FIELDS_H
#define TFE_COMMON_MESSAGE_CODEC_FIELDS_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/msg.h"

/* Kinds of fields. NUMBER includes flags, enums and times; PART is an embedded message. */
enum codec_kind { CODEC_NUMBER, CODEC_TEXT, CODEC_BYTES, CODEC_PART, CODEC_LIST };

/* Value in the struct of an optional field that is absent: ZERO (0, "", a part of zeros), UNSET
 * (MSG_UNSET) or NULL. The encoder omits a field with this value, except a part of zeros. A part
 * with CODEC_NULL is a pointer in the struct; any other part is embedded. */
enum codec_absent { CODEC_ZERO, CODEC_UNSET, CODEC_NULL };

/* One field. protobuf-c's descriptors of tfe.proto supply the wire type, whether the field is
 * optional, and enum values; a row holds what they lack. */
struct codec_field {
    const char *name; /* name in tfe.proto, compared by the test */
    enum codec_kind kind;
    enum codec_absent absent;
    uint16_t offset; /* offset in the struct of msg.h */
    uint16_t
        companion;  /* offset of the element or byte count, or of the flag has_*; 0 if neither */
    uint16_t size;  /* size of the number, part or list element in the struct */
    uint16_t n_min; /* minimum number of elements of a list */
    uint16_t n_max; /* maximum number of elements of a list */
    bool is_late;   /* the elements of this list of messages are encoded after all other fields
                       (put_row) */
    uint64_t min;   /* minimum of a number, of a text's length, or of those of list elements */
    uint64_t max;
    bool (*is_legal)(const char *text); /* validates a text; NULL for prose, which permits any
                                           characters (codec.h) */
    const struct codec_layout
        *part; /* layout of the part, or of each element of a list of messages */
};

/* Layout of a message or a part of one. */
struct codec_layout {
    const ProtobufCMessageDescriptor *descriptor;
    const struct codec_field
        *fields; /* fields in ascending order of number; the first entry is unused */
    size_t n_fields;
    size_t size; /* size of the struct in msg.h */
};

/* Returns the layout of a message type, or NULL if the type is unknown. */
const struct codec_layout *codec_layout_of(enum tfe_msg_type type);

/* True if the fields of a message, each already validated, are consistent with each other. */
bool codec_is_valid(const struct tfe_msg *msg);

#endif
