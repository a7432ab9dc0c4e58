/* server/jobs/bundles.h: the bundles that jobs bring, as files of the state directory, by digest;
 * all that touches the disk is beside the loop.
 *
 * Who may hand in some jobs only names what such a token has brought: a digest is not yet proof
 * that one has the bytes. So a file is named by its digest and by whom it is of, DIGEST-SCOPE. */
#ifndef TFE_SERVER_JOBS_BUNDLES_H
#define TFE_SERVER_JOBS_BUNDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/message/msg.h"

struct bundle_reading;
struct bundles;
struct event_base;
struct principal;
struct rows;

struct bundles_config {
    struct event_base *base;
    const char *directory; /* borrowed; made when there is something to put in */
    /* Whether a job that is remembered names it. */
    bool (*is_named)(void *ctx, const char *digest);
    void *ctx;
};

/* Takes in what is there. TFE_ENOMEM, TFE_ESYS. */
int bundles_new(const struct bundles_config *config, struct bundles **ret) TFE_MUST_CHECK;
/* All rows and readings of it are gone, or it waits for them. NULL is allowed. */
void bundles_free(struct bundles *b);

/* Whether it is there, and `by` may name it; to who reads it alone by is NULL. */
bool bundles_has(const struct bundles *b, const char *digest, const struct principal *by);

/* BUNDLE_HAVE: BUNDLE_WANTs as the disk takes what comes, DONE once it is durable, or REFUSED. by
 * is the session's, and what comes is known by that. TFE_ENOMEM. */
int rows_bundle(struct bundles *b, const struct principal *by, const struct msg_bundle_have *have,
                struct rows **ret) TFE_MUST_CHECK;
/* False: nobody has asked for that. */
bool bundles_put(struct bundles *b, const struct principal *by, const struct msg_bundle_put *put);

/* The disk has returned what it could; comes once, from the loop, unless the reading is released
 * before. */
typedef void bundle_read_fn(void *ctx, struct bundle_reading *reading);
/* Begins to read bytes of a bundle, for which a digest alone is needed. length up to MSG_FETCH_MAX.
 * NULL: no memory, or it is not there. The caller releases the reading. */
struct bundle_reading *bundles_read(struct bundles *b, const char *digest, uint32_t offset,
                                    uint32_t length, bundle_read_fn *done, void *ctx);
/* What was read, after done; borrowed. *ret_n 0: the disk has failed, or the bundle is shorter. */
const uint8_t *bundles_bytes(const struct bundle_reading *reading, uint32_t *ret_n,
                             uint32_t *ret_total);
/* At any time. NULL is allowed. */
void bundles_let_go(struct bundle_reading *reading);

#endif
