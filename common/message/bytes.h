/* common/message/bytes.h: big-endian integers in byte arrays (network order, PROTOCOL.md). Pure. */
#ifndef TFE_COMMON_MESSAGE_BYTES_H
#define TFE_COMMON_MESSAGE_BYTES_H

#include <stdint.h>

static inline void be16_put(uint8_t out[2], uint16_t v)
{
    out[0] = (uint8_t)(v >> 8);
    out[1] = (uint8_t)v;
}

static inline uint16_t be16_get(const uint8_t in[2])
{
    return (uint16_t)((uint16_t)(in[0] << 8) | in[1]);
}

static inline void be32_put(uint8_t out[4], uint32_t v)
{
    be16_put(out, (uint16_t)(v >> 16));
    be16_put(out + 2, (uint16_t)v);
}

static inline uint32_t be32_get(const uint8_t in[4])
{
    return (uint32_t)be16_get(in) << 16 | be16_get(in + 2);
}

static inline void be64_put(uint8_t out[8], uint64_t v)
{
    be32_put(out, (uint32_t)(v >> 32));
    be32_put(out + 4, (uint32_t)v);
}

static inline uint64_t be64_get(const uint8_t in[8])
{
    return (uint64_t)be32_get(in) << 32 | be32_get(in + 4);
}

#endif
