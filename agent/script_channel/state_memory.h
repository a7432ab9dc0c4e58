/* agent/script_channel/state_memory.h: memory for the trainers' snapshots of their state.
 * It survives the end of a trainer, and is released when the agent and all processes that
 * map it have ended. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_STATE_MEMORY_H
#define TFE_AGENT_SCRIPT_CHANNEL_STATE_MEMORY_H

#include <stdint.h>

#include "common/text/reason.h"

struct event_base;
struct state_memory;

/* No fixed limit: at most a quarter of the free memory. */
#define STATE_MEMORY_AUTO UINT64_MAX

/* Reports the memory of a trainer, by local rank: descriptor (borrowed) and size, or fd -1 with the
 * reason, "" if none was ever requested. */
typedef void state_memory_fn(void *ctx, uint32_t local, int fd, uint64_t bytes, const char *reason);

/* Creates an allocator. limit is the total number of bytes for all trainers, 0 for none, or
 * STATE_MEMORY_AUTO. on_response is called from the event loop or from inside state_memory_request.
 */
struct state_memory *state_memory_new(struct event_base *base, uint64_t limit,
                                      state_memory_fn *on_response, void *ctx);
/* Frees an allocator. Accepts NULL. */
void state_memory_free(struct state_memory *m);

/* Requests at least `bytes` for the trainer with this local rank; 0 requests
 * the memory that its predecessor left. Answered once, unless a new request replaces it.
 * The existing memory stays until a larger one is ready, with all pages allocated so that
 * access never fails. */
void state_memory_request(struct state_memory *m, uint32_t local, uint64_t bytes);

#endif
