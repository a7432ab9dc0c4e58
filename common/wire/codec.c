/* common/wire/codec.c: the type byte, and which functions belong to it. */
#include "common/wire/codec.h"

#include <string.h>

#include "common/wire/codec_parts.h"
#include "common/wire/seal.h"

/* --- the arena as protobuf-c's allocator ------------------------------------------------------ */

static void *pb_alloc(void *ctx, size_t n)
{
    struct codec_in *in = ctx;
    void *p = arena_take(in->arena, n);
    in->is_exhausted |= !p;
    return p;
}

static void pb_free(void *ctx, void *p)
{
    (void)ctx; /* all at once, by arena_reset */
    (void)p;
}

/* --- dispatch --------------------------------------------------------------------------------- */

/* TFE_EUNKNOWN where no message has the number. */
static int check(const struct tfe_msg *msg)
{
    switch ((int)msg->type) {
#define CODEC_CHECK(NAME, name, number, sender)                                                    \
    case number:                                                                                   \
        return codec_check_##name(&msg->u.name) ? 0 : TFE_EINVAL;
        TFE_MSGS(CODEC_CHECK)
#undef CODEC_CHECK
    }
    return TFE_EUNKNOWN;
}

static int put(const struct tfe_msg *msg, struct codec_out *out)
{
    switch ((int)msg->type) {
#define CODEC_PUT(NAME, name, number, sender)                                                      \
    case number:                                                                                   \
        return codec_put_##name(&msg->u.name, out);
        TFE_MSGS(CODEC_PUT)
#undef CODEC_PUT
    }
    return TFE_EUNKNOWN;
}

static int get(struct codec_in *in, struct tfe_msg *ret)
{
    switch ((int)ret->type) {
#define CODEC_GET(NAME, name, number, sender)                                                      \
    case number:                                                                                   \
        return codec_get_##name(in, &ret->u.name);
        TFE_MSGS(CODEC_GET)
#undef CODEC_GET
    }
    return TFE_EUNKNOWN;
}

/* --- the door --------------------------------------------------------------------------------- */

int codec_encode(const struct tfe_msg *msg, uint8_t *out, size_t out_cap, size_t *ret_n)
{
    if (msg->type == MSG_TABLE && msg->u.table.n_rows > MSG_ROWS_PER_CHUNK) {
        return TFE_ETOOBIG;
    }
    if (check(msg) != 0) {
        return TFE_EINVAL;
    }
    if (out_cap < 1) {
        return TFE_ETOOBIG;
    }
    out[0] = (uint8_t)msg->type;
    struct codec_out to = {.at = out + 1, .left = out_cap - 1};
    int rc = put(msg, &to);
    if (rc == 0) {
        *ret_n = out_cap - to.left;
    }
    return rc;
}

int codec_decode(struct arena *arena, const uint8_t *in, size_t n, struct tfe_msg *ret)
{
    if (n < 1 || n > SEAL_PLAIN_MAX) {
        return TFE_EPROTO;
    }
    struct codec_in from = {.arena = arena, .body = in + 1, .n = n - 1};
    from.allocator =
        (ProtobufCAllocator){.alloc = pb_alloc, .free = pb_free, .allocator_data = &from};
    struct tfe_msg msg;
    memset(&msg, 0, sizeof(msg));
    msg.type = (enum tfe_msg_type)in[0];
    int rc = get(&from, &msg);
    if (rc) {
        return rc;
    }
    if (check(&msg) != 0) {
        return TFE_EPROTO;
    }
    *ret = msg;
    return 0;
}
