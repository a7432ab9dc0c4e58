/* server/ctl/bundle_put.c: uploads a bundle to the server, as fast as it accepts it. */
#include <stdlib.h>
#include <string.h>

#include "server/ctl/bundle_pack.h"
#include "server/ctl/request.h"

struct put {
    const struct bundle *bundle;
    uint32_t at;    /* bytes sent so far */
    uint32_t until; /* offset up to which the server accepts bytes */
};

static bool on_want(void *ctx, const struct tfe_msg *row)
{
    struct put *put = ctx;
    const struct msg_bundle_want *want = &row->u.bundle_want;
    put->at = want->offset > put->at ? want->offset : put->at;
    put->until = want->until < put->bundle->n ? want->until : (uint32_t)put->bundle->n;
    return true;
}

static bool next_chunk(void *ctx, struct tfe_msg *ret)
{
    struct put *put = ctx;
    if (put->at >= put->until) {
        return false;
    }
    const uint32_t left = put->until - put->at;
    const uint32_t n = left < MSG_CHUNK_MAX ? left : MSG_CHUNK_MAX;
    *ret = (struct tfe_msg){.type = MSG_BUNDLE_PUT,
                            .u.bundle_put = {.digest = put->bundle->digest,
                                             .offset = put->at,
                                             .data = put->bundle->bytes + put->at,
                                             .n_data = n}};
    put->at += n;
    return true;
}

/* The upload starts again on the next connection. */
static void on_lost(void *ctx)
{
    struct put *put = ctx;
    put->at = put->until = 0;
}

int bundle_put(const struct ctl_settings *settings, const struct bundle *bundle)
{
    struct put put = {.bundle = bundle};
    const struct tfe_msg have = {
        .type = MSG_BUNDLE_HAVE,
        .u.bundle_have = {.digest = bundle->digest, .total = (uint32_t)bundle->n}};
    const struct request_stream stream = {
        .row = on_want, .lost = on_lost, .reply = next_chunk, .ctx = &put};
    return request_stream(settings, &have, &stream);
}
