/* common/channel/listener.h: a listening TCP socket that pauses instead of failing: on EMFILE,
 * ENFILE, ENOBUFS, ENOMEM for LIMIT_ACCEPT_PAUSE_MS, while connections wait in the kernel's queue.
 * It logs that once per second at most. */
#ifndef TFE_COMMON_CHANNEL_LISTENER_H
#define TFE_COMMON_CHANNEL_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/base/reason.h"

struct event_base;
struct listener;

/* fd is non-blocking and close-on-exec; the callee owns it. */
typedef void listener_accept_fn(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_len);

/* Binds address (numeric, v4 or v6) and listens; port 0 picks one. TFE_ESYS: why says it in one
 * sentence with the port ("port 5556 on 0.0.0.0 is in use"). TFE_EINVAL: not a numeric address.
 * TFE_ENOMEM. */
int listener_new(struct event_base *base, const char *address, uint16_t port,
                 listener_accept_fn *on_accept, void *ctx, struct listener **ret,
                 struct tfe_reason *reason) TFE_MUST_CHECK;
/* NULL is allowed; also from on_accept. */
void listener_free(struct listener *listener);

/* The port that is listened on. */
uint16_t listener_port(const struct listener *listener);

#endif
