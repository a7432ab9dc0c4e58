/* common/message/codec.c: encodes and decodes any message by the field tables. */
#include "common/message/codec.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/handshake/seal.h"
#include "common/message/codec_fields.h"

/* --- access to struct members, validation of values ------------------------------------------- */

/* Copies the bits, because the member may be a double. */
static uint64_t bits_at(const void *at)
{
    uint64_t bits;
    memcpy(&bits, at, sizeof(bits));
    return bits;
}

static uint64_t number_at(const void *at, size_t size)
{
    return size == sizeof(bool)       ? *(const bool *)at
           : size == sizeof(uint16_t) ? *(const uint16_t *)at
           : size == sizeof(uint32_t) ? *(const uint32_t *)at
                                      : bits_at(at);
}

static void set_number(void *at, size_t size, uint64_t number)
{
    if (size == sizeof(bool)) {
        *(bool *)at = number != 0;
    } else if (size == sizeof(uint16_t)) {
        *(uint16_t *)at = (uint16_t)number;
    } else if (size == sizeof(uint32_t)) {
        *(uint32_t *)at = (uint32_t)number;
    } else {
        memcpy(at, &number, sizeof(number));
    }
}

/* Copies the pointer, because its member may have any pointer type. */
static const void *pointer_at(const void *at)
{
    const void *pointer;
    memcpy(&pointer, at, sizeof(pointer));
    return pointer;
}

static void set_pointer(void *at, const void *pointer)
{
    memcpy(at, &pointer, sizeof(pointer));
}

static bool is_legal_number(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                            uint64_t number)
{
    if (field->type == PROTOBUF_C_TYPE_DOUBLE) {
        return (number >> 52 & 0x7ff) != 0x7ff; /* rejects infinities and NaN */
    }
    if (field->type == PROTOBUF_C_TYPE_ENUM) {
        return protobuf_c_enum_descriptor_get_value(field->descriptor, (int)number) != NULL;
    }
    return (number >= row->min && number <= row->max) ||
           (number == MSG_UNSET && row->absent == CODEC_UNSET);
}

/* Validates a text. n is its length, or any number above row->max. */
static bool is_legal_text(const struct codec_field *row, const char *text, size_t n)
{
    return n >= row->min && n <= row->max && (!row->is_legal || row->is_legal(text));
}

/* --- encoding --------------------------------------------------------------------------------- */

/* Output buffer. Bytes beyond its capacity are counted but not written. */
struct out {
    uint8_t *at;
    size_t cap;
    size_t n;
};

/* Wire types of protobuf: the low three bits of a tag. */
enum wire { WIRE_VARINT = 0, WIRE_EIGHT_BYTES = 1, WIRE_LENGTH = 2 };

static void put_byte(struct out *out, uint8_t byte)
{
    if (out->n < out->cap) {
        out->at[out->n] = byte;
    }
    out->n++;
}

static void put_bytes(struct out *out, const void *bytes, size_t n)
{
    if (out->n < out->cap && n <= out->cap - out->n) {
        memcpy(out->at + out->n, bytes, n);
    }
    out->n += n;
}

static void put_varint(struct out *out, uint64_t number)
{
    for (; number > 0x7f; number >>= 7) {
        put_byte(out, (uint8_t)(number | 0x80));
    }
    put_byte(out, (uint8_t)number);
}

static void put_tag(struct out *out, const ProtobufCFieldDescriptor *field, enum wire wire)
{
    put_varint(out, field->id << 3 | wire);
}

/* Begins a length-delimited field; end_length completes it. Returns the offset of the content. */
static size_t begin_length(struct out *out, const ProtobufCFieldDescriptor *field)
{
    put_tag(out, field, WIRE_LENGTH);
    put_byte(out, 0);
    return out->n;
}

/* Writes the length before the content. begin_length reserved one byte for it; a longer content
 * moves by one. No part or list needs more than two bytes of length. */
static void end_length(struct out *out, size_t begin)
{
    size_t n = out->n - begin;
    bool is_long = n > 0x7f;
    out->n += is_long;
    if (out->n > out->cap) {
        return;
    }
    TFE_ASSERT(n <= 0x3fff);
    uint8_t *from = out->at + begin;
    if (is_long) {
        memmove(from + 1, from, n);
        from[0] = (uint8_t)(n >> 7);
    }
    from[-1] = (uint8_t)((n & 0x7f) | (is_long ? 0x80 : 0));
}

static bool put_number(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                       const char *m, struct out *out)
{
    uint64_t number = number_at(m + row->offset, row->size);
    if (field->label == PROTOBUF_C_LABEL_OPTIONAL) {
        uint64_t absent = row->absent == CODEC_UNSET ? MSG_UNSET : 0;
        if (row->companion ? !*(const bool *)(m + row->companion) : number == absent) {
            return true;
        }
    }
    if (field->type == PROTOBUF_C_TYPE_FIXED64 || field->type == PROTOBUF_C_TYPE_DOUBLE) {
        put_tag(out, field, WIRE_EIGHT_BYTES);
        for (unsigned shift = 0; shift < 64; shift += 8) {
            put_byte(out, (uint8_t)(number >> shift));
        }
    } else {
        put_tag(out, field, WIRE_VARINT);
        put_varint(out, number);
    }
    return is_legal_number(row, field, number);
}

static bool put_text(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                     const char *text, struct out *out)
{
    if (!text) {
        return row->absent == CODEC_NULL;
    }
    size_t n = strnlen(text, row->max + 1);
    if (n > 0 || row->absent == CODEC_NULL || field->label != PROTOBUF_C_LABEL_OPTIONAL) {
        put_tag(out, field, WIRE_LENGTH);
        put_varint(out, n);
        put_bytes(out, text, n);
    }
    return is_legal_text(row, text, n);
}

/* Writes bytes of any value; an empty blob is encoded as absent. */
static bool put_blob(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                     const char *m, struct out *out)
{
    size_t n = *(const size_t *)(m + row->companion);
    const void *bytes = pointer_at(m + row->offset);
    if (n < row->min || n > row->max || (n > 0 && !bytes)) {
        return false;
    }
    if (n > 0) {
        put_tag(out, field, WIRE_LENGTH);
        put_varint(out, n);
        put_bytes(out, bytes, n);
    }
    return true;
}

static bool put(const struct codec_layout *layout, const char *m, struct out *out);

static bool put_part(const struct codec_layout *part, const ProtobufCFieldDescriptor *field,
                     const char *m, struct out *out)
{
    size_t begin = begin_length(out, field);
    bool is_legal = put(part, m, out);
    end_length(out, begin);
    return is_legal;
}

static bool put_list(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                     const char *m, struct out *out)
{
    size_t n = *(const size_t *)(m + row->companion);
    const char *list = pointer_at(m + row->offset);
    if (n < row->n_min || n > row->n_max || (n && !list)) {
        return false;
    }
    bool is_legal = true;
    if (n == 0 || row->part) {
        for (size_t i = 0; is_legal && !row->is_late && i < n; i++) {
            is_legal = put_part(row->part, field, list + i * row->size, out);
        }
        return is_legal;
    }
    if (field->type == PROTOBUF_C_TYPE_BYTES) {
        for (size_t i = 0; is_legal && i < n; i++) {
            is_legal = put_text(row, field, pointer_at(list + i * row->size), out);
        }
        return is_legal;
    }
    size_t begin = begin_length(out, field);
    for (size_t i = 0; i < n; i++) {
        uint64_t number = number_at(list + i * row->size, row->size);
        is_legal &= is_legal_number(row, field, number);
        put_varint(out, number);
    }
    end_length(out, begin);
    return is_legal;
}

static bool put_field(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                      const char *m, struct out *out)
{
    const char *from = m + row->offset;
    switch (row->kind) {
    case CODEC_NUMBER:
        return put_number(row, field, m, out);
    case CODEC_TEXT:
        return put_text(row, field, pointer_at(from), out);
    case CODEC_BYTES:
        return put_blob(row, field, m, out);
    case CODEC_PART:
        from = row->absent == CODEC_NULL ? pointer_at(from) : from;
        return !from || put_part(row->part, field, from, out);
    case CODEC_LIST:
        return put_list(row, field, m, out);
    }
    return false;
}

/* Appends m, a struct of the layout, except the elements of a list with is_late. Returns false if a
 * value is invalid; validates every field even if the buffer is full. */
static bool put(const struct codec_layout *layout, const char *m, struct out *out)
{
    const ProtobufCFieldDescriptor *field = layout->descriptor->fields;
    bool is_legal = true;
    for (unsigned left = layout->descriptor->n_fields; is_legal && left > 0; left--, field++) {
        is_legal = put_field(&layout->fields[field->id], field, m, out);
    }
    return is_legal;
}

/* Field number of Table.rows in tfe.proto. */
#define TABLE_ROWS 4

static bool put_row(const struct codec_layout *table, const struct msg_row *row, struct out *out)
{
    return put_part(table->fields[TABLE_ROWS].part,
                    protobuf_c_message_descriptor_get_field(table->descriptor, TABLE_ROWS),
                    (const char *)row, out);
}

/* Encodes a message and, for a TABLE, as many rows as fit, after all other fields. */
static int encode(const struct tfe_msg *msg, uint8_t *out, size_t out_cap, size_t *ret_n,
                  size_t *ret_rows)
{
    const struct codec_layout *layout = codec_layout_of(msg->type);
    struct out to = {.at = out, .cap = out_cap};
    put_byte(&to, (uint8_t)msg->type);
    if (!layout || !put(layout, (const char *)&msg->u, &to) || !codec_is_valid(msg)) {
        return TFE_EINVAL;
    }
    size_t n = to.n;
    size_t n_rows = msg->type == MSG_TABLE ? msg->u.table.n_rows : 0;
    size_t rows = 0;
    for (; rows < n_rows; rows++, n = to.n) {
        if (!put_row(layout, &msg->u.table.rows[rows], &to)) {
            return TFE_EINVAL;
        }
        if (to.n > out_cap) {
            break;
        }
    }
    if (n > out_cap || (rows == 0 && n_rows > 0)) {
        return TFE_ETOOBIG;
    }
    *ret_rows = rows;
    *ret_n = n;
    return 0;
}

int codec_encode(const struct tfe_msg *msg, uint8_t *out, size_t out_cap, size_t *ret_n)
{
    size_t n = msg->type == MSG_TABLE ? msg->u.table.n_rows : 0;
    size_t rows = 0;
    if (n > MSG_ROWS_PER_CHUNK) {
        return TFE_ETOOBIG;
    }
    int rc = encode(msg, out, out_cap, ret_n, &rows);
    return rc == 0 && rows < n ? TFE_ETOOBIG : rc;
}

int codec_encode_table_chunk(const struct msg_table *whole, size_t first, uint8_t *out,
                             size_t out_cap, size_t *ret_n, size_t *ret_rows)
{
    if (first > whole->n_rows || (whole->n_rows && !whole->rows)) {
        return TFE_EINVAL;
    }
    struct tfe_msg chunk = {.type = MSG_TABLE, .u.table = *whole};
    size_t left = whole->n_rows - first;
    chunk.u.table.rows = left ? whole->rows + first : NULL;
    chunk.u.table.n_rows = left < MSG_ROWS_PER_CHUNK ? left : MSG_ROWS_PER_CHUNK;
    return encode(&chunk, out, out_cap, ret_n, ret_rows);
}

/* --- decoding --------------------------------------------------------------------------------- */

/* protobuf-c's allocator on an arena. Each allocation is followed by a zero byte, which terminates
 * texts in place. */
static void *pb_alloc(void *arena, size_t n)
{
    char *p = arena_alloc(arena, n + 1);
    if (p) {
        p[n] = '\0';
    }
    return p;
}

static void pb_free(void *arena, void *p)
{
    (void)arena; /* arena_reset frees all allocations */
}

static int decode(const struct codec_layout *layout, struct arena *arena, const char *pb, char *m);

/* True if an optional number or text was present on the wire. */
static bool is_present(const ProtobufCFieldDescriptor *field, const char *pb)
{
    return *(const protobuf_c_boolean *)(pb + field->quantifier_offset);
}

/* Decodes a number. An absent one is 0 in protobuf-c's struct, whose members have at least 32
 * bits. */
static bool decode_number(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                          const char *pb, char *m)
{
    uint64_t number =
        number_at(pb + field->offset, row->size == sizeof(uint64_t) ? row->size : sizeof(uint32_t));
    if (row->companion) {
        *(bool *)(m + row->companion) = is_present(field, pb);
    } else if (row->absent == CODEC_UNSET && !is_present(field, pb)) {
        number = MSG_UNSET;
    } else if (row->absent == CODEC_UNSET && number == MSG_UNSET) {
        return false; /* the sentinel for "absent" is invalid on the wire */
    }
    set_number(m + row->offset, row->size, number);
    return is_legal_number(row, field, number);
}

/* Sets *at to the text in bytes. Replaces control characters in prose. Returns false if the text is
 * invalid. */
static bool decode_text_bytes(const struct codec_field *row, const ProtobufCBinaryData *bytes,
                              void *at)
{
    const char *text = bytes->len ? (const char *)bytes->data : "";
    set_pointer(at, text);
    if (memchr(text, 0, bytes->len)) {
        return false;
    }
    for (size_t i = 0; !row->is_legal && i < bytes->len; i++) {
        uint8_t c = bytes->data[i];
        bool is_control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
        bytes->data[i] = is_control ? '?' : c;
    }
    return is_legal_text(row, text, bytes->len);
}

/* Decodes a text. An absent one has length 0 in protobuf-c's struct. */
static bool decode_text(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                        const char *pb, char *m)
{
    return (row->absent == CODEC_NULL && !is_present(field, pb)) ||
           decode_text_bytes(row, (const void *)(pb + field->offset), m + row->offset);
}

static bool decode_blob(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                        const char *pb, char *m)
{
    const ProtobufCBinaryData *bytes = (const void *)(pb + field->offset);
    set_pointer(m + row->offset, bytes->len > 0 ? bytes->data : NULL);
    *(size_t *)(m + row->companion) = bytes->len;
    return bytes->len >= row->min && bytes->len <= row->max;
}

/* Decodes n protobuf-c structs, to which pbs points, into an array in the arena. */
static int decode_parts(const struct codec_layout *part, struct arena *arena, const char *pbs,
                        size_t n, void *ret)
{
    char *parts = arena_alloc(arena, n * part->size);
    if (!parts) {
        return TFE_ENOMEM;
    }
    memset(parts, 0, n * part->size);
    set_pointer(ret, parts);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = decode(part, arena, pointer_at(pbs + i * sizeof(void *)), parts + i * part->size);
    }
    return rc;
}

static int decode_list(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                       struct arena *arena, const char *pb, char *m)
{
    const void *elements = pointer_at(pb + field->offset);
    const uint32_t *numbers = elements;
    const ProtobufCBinaryData *texts = elements;
    bool has_texts = field->type == PROTOBUF_C_TYPE_BYTES;
    size_t n = *(const size_t *)(pb + field->quantifier_offset);
    if (n < row->n_min || n > row->n_max) {
        return TFE_EPROTO;
    }
    *(size_t *)(m + row->companion) = n;
    if (row->part) {
        return decode_parts(row->part, arena, elements, n, m + row->offset);
    }
    char *list = arena_alloc(arena, n * row->size);
    bool are_legal = true;
    for (size_t i = 0; list && has_texts && i < n; i++) {
        are_legal &= decode_text_bytes(row, &texts[i], list + i * row->size);
    }
    for (size_t i = 0; list && !has_texts && i < n; i++) {
        are_legal &= is_legal_number(row, field, numbers[i]);
        set_number(list + i * row->size, row->size, numbers[i]);
    }
    set_pointer(m + row->offset, list);
    return !list ? TFE_ENOMEM : are_legal ? 0 : TFE_EPROTO;
}

static int decode_field(const struct codec_field *row, const ProtobufCFieldDescriptor *field,
                        struct arena *arena, const char *pb, char *m)
{
    switch (row->kind) {
    case CODEC_NUMBER:
        return decode_number(row, field, pb, m) ? 0 : TFE_EPROTO;
    case CODEC_TEXT:
        return decode_text(row, field, pb, m) ? 0 : TFE_EPROTO;
    case CODEC_BYTES:
        return decode_blob(row, field, pb, m) ? 0 : TFE_EPROTO;
    case CODEC_PART:
        if (!pointer_at(pb + field->offset)) {
            return 0;
        }
        return row->absent == CODEC_NULL
                   ? decode_parts(row->part, arena, pb + field->offset, 1, m + row->offset)
                   : decode(row->part, arena, pointer_at(pb + field->offset), m + row->offset);
    case CODEC_LIST:
        return decode_list(row, field, arena, pb, m);
    }
    return TFE_EPROTO;
}

/* Decodes all fields into m, which must be zeroed. */
static int decode(const struct codec_layout *layout, struct arena *arena, const char *pb, char *m)
{
    const ProtobufCFieldDescriptor *field = layout->descriptor->fields;
    const struct codec_field *rows = layout->fields;
    int rc = 0;
    for (unsigned left = layout->descriptor->n_fields; rc == 0 && left > 0; left--, field++) {
        rc = decode_field(&rows[field->id], field, arena, pb, m);
    }
    return rc;
}

int codec_decode(struct arena *arena, const uint8_t *in, size_t n, struct tfe_msg *ret)
{
    if (n < 1 || n > SEAL_PLAIN_MAX) {
        return TFE_EPROTO;
    }
    struct tfe_msg msg;
    msg.type = (enum tfe_msg_type)in[0];
    const struct codec_layout *layout = codec_layout_of(msg.type);
    if (!layout) {
        return TFE_EUNKNOWN;
    }
    ProtobufCAllocator allocator = {.alloc = pb_alloc, .free = pb_free, .allocator_data = arena};
    const void *pb = protobuf_c_message_unpack(layout->descriptor, &allocator, n - 1, in + 1);
    if (!pb) {
        return arena->is_exhausted ? TFE_ENOMEM : TFE_EPROTO;
    }
    memset(&msg.u, 0, layout->size);
    int rc = decode(layout, arena, pb, (char *)&msg.u);
    if (rc == 0 && !codec_is_valid(&msg)) {
        rc = TFE_EPROTO;
    }
    if (rc == 0) {
        ret->type = msg.type;
        memcpy(&ret->u, &msg.u, layout->size);
    }
    return rc;
}
