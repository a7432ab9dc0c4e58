/* agent/script_channel/state_memory.h: memory for the trainers' snapshots of their state. It
 * outlives the trainer, and nothing else: with the agent, and whoever still has it mapped, it is
 * gone. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_STATE_MEMORY_H
#define TFE_AGENT_SCRIPT_CHANNEL_STATE_MEMORY_H

#include <stdint.h>

#include "common/base/reason.h"

struct event_base;
struct state_memory;

/* As much as is asked for, and at most a quarter of what is free. */
#define STATE_MEMORY_AUTO UINT64_MAX

/* The memory of the place is there (fd, of so many bytes; borrowed), or there is none (fd -1), and
 * why: "" where none was asked for. */
typedef void state_memory_fn(void *ctx, uint32_t place, int fd, uint64_t bytes, const char *reason);

/* limit: bytes for all places together; 0: none; STATE_MEMORY_AUTO. on_answer: from the loop, or
 * from inside state_memory_ask. */
struct state_memory *state_memory_new(struct event_base *base, uint64_t limit,
                                      state_memory_fn *on_answer, void *ctx);
/* NULL is allowed. */
void state_memory_free(struct state_memory *m);

/* A trainer of the place (below MSG_NPROC_MAX) asks for at least so many bytes; 0: for what its
 * predecessor has left. Answered once, unless asked again before. What was there stays until a
 * larger one is ready, whose pages are all there: using it never fails. */
void state_memory_ask(struct state_memory *m, uint32_t place, uint64_t bytes);

#endif
