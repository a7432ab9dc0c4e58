/* agent/script_channel/checkpoints.h: watches a TensorFlow checkpoint directory
 * (--checkpoint-dir) with inotify, to detect the saves of scripts that report none. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_CHECKPOINTS_H
#define TFE_AGENT_SCRIPT_CHANNEL_CHECKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

struct event_base;
struct checkpoints;

/* Called when a checkpoint is complete, i.e. named in the state file. step is valid if has_step,
 * which requires a step in the checkpoint's name. answers is the number of the newest save
 * request before its first file was created, or 0 if none or unknown. */
typedef void checkpoints_fn(void *ctx, bool has_step, uint64_t step, uint64_t answers);

/* Watches dir, which may be created, removed and created again later. Existing checkpoints are
 * not reported. The directory is read only after an event, never periodically, because a hanging
 * file server would block the agent. Without inotify a warning is logged and nothing is
 * detected. Precondition: dir is shorter than PATH_MAX. */
struct checkpoints *checkpoints_new(struct event_base *base, const char *dir, checkpoints_fn *fn,
                                    void *ctx);
void checkpoints_free(struct checkpoints *c);

/* Starts an epoch: existing checkpoints and earlier save requests no longer count. */
void checkpoints_begin(struct checkpoints *c);

/* Reports checkpoints that have been completed so far. */
void checkpoints_catch_up(struct checkpoints *c);

/* Records a save request, after reporting checkpoints completed before it. */
void checkpoints_request_save(struct checkpoints *c, uint64_t number);

/* Returns the highest epoch in the names of files that the tfe package saved in the directory,
 * or 0 if there is none or it cannot be read. A server that lost its database continues from
 * this epoch; otherwise it would reject every save as stale. Reads the directory at once. */
uint64_t checkpoints_epoch(const char *dir);

#endif
