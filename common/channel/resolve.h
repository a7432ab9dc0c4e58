/* common/channel/resolve.h: a host's addresses, without blocking the loop. For channels and probes.
 */
#ifndef TFE_COMMON_CHANNEL_RESOLVE_H
#define TFE_COMMON_CHANNEL_RESOLVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"

struct event_base;
struct resolve;

/* Addresses of one host that are tried; a name with more is balanced by its server anyway. */
#define RESOLVE_MAX 8

struct resolve_addresses {
    size_t n;
    struct sockaddr_storage address[RESOLVE_MAX]; /* v4 first: TensorFlow's clusters are v4 */
    socklen_t length[RESOLVE_MAX];
};

/* error is NULL, or says what is wrong ("name or service not known"). Comes once, from the loop.
 * The resolve is freed when it returns. */
typedef void resolve_fn(void *ctx, const struct resolve_addresses *addresses, const char *error);

/* A numeric address, at once. TFE_EINVAL: it is not one. */
int resolve_numeric(const char *host, uint16_t port, struct resolve_addresses *ret) TFE_MUST_CHECK;

/* Asks the system's resolver in a thread of its own. host is copied. TFE_ENOMEM; TFE_ESYS: no
 * thread or descriptor can be had, or too many questions are still unanswered. */
int resolve_start(struct event_base *base, const char *host, uint16_t port, resolve_fn *on_done,
                  void *ctx, struct resolve **ret) TFE_MUST_CHECK;

/* No callback comes any more; the thread ends when it can. NULL is allowed. */
void resolve_free(struct resolve *resolve);

#endif
