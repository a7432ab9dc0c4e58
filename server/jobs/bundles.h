/* server/jobs/bundles.h: the bundles of jobs: files in the state directory, named by digest. All
 * disk access is done by a worker thread. A scoped token may name only bundles that such a token
 * uploaded, because a digest is no proof of having the bytes; so a file is named DIGEST-SCOPE. */
#ifndef TFE_SERVER_JOBS_BUNDLES_H
#define TFE_SERVER_JOBS_BUNDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

struct bundle_reading;
struct bundles;
struct event_base;
struct principal;
struct rows;

struct bundles_config {
    struct event_base *base;
    const char *directory; /* borrowed; created with the first bundle */
    /* Returns true if a remembered job names the bundle. */
    bool (*is_named)(void *ctx, const char *digest);
    void *ctx;
};

/* Reads the directory. Returns 0, TFE_ENOMEM or TFE_ESYS. */
int bundles_new(const struct bundles_config *config, struct bundles **ret) TFE_MUST_CHECK;
/* Precondition: all sources and readings are freed. Waits for pending disk work. NULL is allowed.
 */
void bundles_free(struct bundles *b);

/* Returns true if the bundle is stored and `by` may name it; by is NULL for readers. */
bool bundles_has(const struct bundles *b, const char *digest, const struct principal *by);

/* Handles BUNDLE_HAVE: sends BUNDLE_WANT as the disk accepts bytes, then DONE once the bundle is
 * durable, or REFUSED. by belongs to the session and identifies the upload. Returns 0 or
 * TFE_ENOMEM. */
int rows_bundle(struct bundles *b, const struct principal *by, const struct msg_bundle_have *have,
                struct rows **ret) TFE_MUST_CHECK;
/* Handles BUNDLE_PUT. Returns false if no upload requested these bytes. */
bool bundles_put(struct bundles *b, const struct principal *by, const struct msg_bundle_put *put);

/* Called once from the loop when the read has ended, unless the reading is released before. */
typedef void bundle_read_fn(void *ctx, struct bundle_reading *reading);
/* Starts reading up to MSG_FETCH_MAX bytes of a bundle; the digest alone is enough. Returns NULL
 * if out of memory or not stored. The caller releases the reading. */
struct bundle_reading *bundles_read(struct bundles *b, const char *digest, uint32_t offset,
                                    uint32_t length, bundle_read_fn *done, void *ctx);
/* Returns the bytes of a finished reading; borrowed. *ret_n is 0 if the disk failed or the bundle
 * is shorter. */
const uint8_t *bundles_bytes(const struct bundle_reading *reading, uint32_t *ret_n,
                             uint32_t *ret_total);
/* Releases a reading at any time. NULL is allowed. */
void bundles_release(struct bundle_reading *reading);

#endif
