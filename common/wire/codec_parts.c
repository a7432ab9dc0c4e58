/* common/wire/codec_parts.c: packing, unpacking into an arena, texts. */
#include "common/wire/codec_parts.h"

#include <string.h>

int codec_pack(struct codec_out *out, const ProtobufCMessage *pb)
{
    size_t n = protobuf_c_message_get_packed_size(pb);
    if (n > out->left) {
        return TFE_ETOOBIG;
    }
    (void)protobuf_c_message_pack(pb, out->at);
    out->at += n;
    out->left -= n;
    return 0;
}

int codec_unpack(struct codec_in *in, const ProtobufCMessageDescriptor *descriptor, void *ret_pb)
{
    void *pb = protobuf_c_message_unpack(descriptor, &in->allocator, in->n, in->body);
    if (!pb) {
        return in->is_exhausted ? TFE_ENOMEM : TFE_EPROTO;
    }
    memcpy(ret_pb, &pb, sizeof(pb));
    return 0;
}

int codec_array(struct codec_in *in, size_t count, size_t size, void *ret)
{
    void *p = arena_take(in->arena, count * size);
    if (!p) {
        return TFE_ENOMEM;
    }
    memcpy(ret, &p, sizeof(p));
    return 0;
}

static bool is_unprintable(char c)
{
    unsigned char u = (unsigned char)c;
    return (u < 0x20 && u != '\n' && u != '\t') || u == 0x7f;
}

int codec_text(struct codec_in *in, const ProtobufCBinaryData *bytes, enum codec_text_kind kind,
               const char **ret)
{
    char *text = arena_take(in->arena, bytes->len + 1);
    if (!text) {
        return TFE_ENOMEM;
    }
    if (bytes->len) {
        if (memchr(bytes->data, 0, bytes->len)) {
            return TFE_EPROTO;
        }
        memcpy(text, bytes->data, bytes->len);
    }
    text[bytes->len] = '\0';
    if (kind == CODEC_PROSE) {
        for (size_t i = 0; i < bytes->len; i++) {
            text[i] = is_unprintable(text[i]) ? '?' : text[i];
        }
    }
    *ret = text;
    return 0;
}

int codec_text_or(struct codec_in *in, protobuf_c_boolean has, const ProtobufCBinaryData *bytes,
                  enum codec_text_kind kind, const char *otherwise, const char **ret)
{
    if (!has) {
        *ret = otherwise;
        return 0;
    }
    return codec_text(in, bytes, kind, ret);
}

/* By way of an integer: a cast that drops const is what -Wcast-qual is there to find. */
ProtobufCBinaryData codec_bytes(const char *text)
{
    return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

uint32_t *codec_numbers(const uint32_t *numbers)
{
    return (uint32_t *)(uintptr_t)numbers;
}
