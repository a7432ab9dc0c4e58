/* server/half_open.h: how many connections may be in their handshake, in all and per address; the
 * others wait, they are never refused. */
#ifndef TFE_SERVER_HALF_OPEN_H
#define TFE_SERVER_HALF_OPEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "server/peer.h"

struct event_base;
struct half_open;
struct half_open_address;

/* A connection may begin its handshake: the callee owns fd, and says half_open_leave(place) once
 * the handshake is over, however it went. Called from half_open_arrived, half_open_leave and the
 * loop. */
typedef void half_open_admit_fn(void *ctx, int fd, const struct peer *peer,
                                struct half_open_address *place);

/* The listener's tap: while full, nothing more is accepted. */
typedef void half_open_full_fn(void *ctx, bool full);

/* TFE_ENOMEM. */
int half_open_new(struct event_base *base, uint32_t per_address, half_open_admit_fn *admit,
                  half_open_full_fn *full, void *ctx, struct half_open **ret) TFE_MUST_CHECK;

/* Closes what waits. Every admitted connection must have left. NULL is allowed. */
void half_open_free(struct half_open *h);

/* A new connection; owns fd. Without memory for it, it is closed. */
void half_open_arrived(struct half_open *h, int fd, const struct peer *peer);

/* Closes those that wait for a place. */
void half_open_close_waiting(struct half_open *h);

void half_open_leave(struct half_open *h, struct half_open_address *place);

#endif
