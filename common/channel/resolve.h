/* common/channel/resolve.h: resolves host names without blocking the loop. */
#ifndef TFE_COMMON_CHANNEL_RESOLVE_H
#define TFE_COMMON_CHANNEL_RESOLVE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"

struct event_base;
struct resolve;

/* Maximum number of addresses tried per host. A name with more is load-balanced by its server
 * anyway. */
#define RESOLVE_MAX 8

struct resolve_addresses {
    size_t n;
    struct sockaddr_storage
        address[RESOLVE_MAX]; /* addresses, IPv4 first, because TensorFlow's clusters use IPv4 */
    socklen_t length[RESOLVE_MAX];
};

/* Completion callback. error is NULL, or a reason such as "name or service not known". Called once,
 * from the loop; the resolve is freed when it returns. */
typedef void resolve_fn(void *ctx, const struct resolve_addresses *addresses, const char *error);

/* Converts a numeric address without asking a resolver. Returns TFE_EINVAL if host is not
 * numeric. */
int resolve_numeric(const char *host, uint16_t port, struct resolve_addresses *ret) TFE_MUST_CHECK;

/* Starts the system's resolver in a separate thread. Copies host. Returns TFE_ENOMEM; TFE_ESYS if
 * no thread or descriptor is available, or too many requests are pending. */
int resolve_start(struct event_base *base, const char *host, uint16_t port, resolve_fn *on_done,
                  void *ctx, struct resolve **ret) TFE_MUST_CHECK;

/* Cancels the request: no callback follows, and the thread ends on its own. NULL is allowed. */
void resolve_free(struct resolve *resolve);

#endif
