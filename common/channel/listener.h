/* common/channel/listener.h: a listening TCP socket. If accept(2) fails for lack of descriptors or
 * memory (EMFILE, ENFILE, ENOBUFS, ENOMEM) the listener pauses for LIMIT_ACCEPT_PAUSE_MS, while
 * connections wait in the kernel's queue, and logs this at most once per second. */
#ifndef TFE_COMMON_CHANNEL_LISTENER_H
#define TFE_COMMON_CHANNEL_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/text/reason.h"

struct event_base;
struct listener;

/* Receives an accepted descriptor, which is non-blocking and close-on-exec; the callee owns it. */
typedef void listener_accept_fn(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_len);

/* Binds a numeric IPv4 or IPv6 address and listens; port 0 selects a free port. Returns TFE_ESYS
 * with a reason that names the port ("port 5556 on 0.0.0.0 is in use"), TFE_EINVAL if the address
 * is not numeric, or TFE_ENOMEM. */
int listener_new(struct event_base *base, const char *address, uint16_t port,
                 listener_accept_fn *on_accept, void *ctx, struct listener **ret,
                 struct tfe_reason *reason) TFE_MUST_CHECK;
/* Closes and frees the listener. NULL is allowed. May be called from on_accept. */
void listener_free(struct listener *listener);

/* Returns the port that the listener is bound to. */
uint16_t listener_port(const struct listener *listener);

#endif
