/* agent/script_channel/checkpoints.h: watches a TensorFlow checkpoint directory (--checkpoint-dir),
 * so that saves of scripts that tell nothing are known. On libevent and inotify. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_CHECKPOINTS_H
#define TFE_AGENT_SCRIPT_CHANNEL_CHECKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

struct event_base;
struct checkpoints;

/* A checkpoint is whole: the state file names it. has_step: its name says at which step.
 * answers: number of the newest ask before its first file was made; 0: none, or that was not seen.
 */
typedef void checkpoints_fn(void *ctx, bool has_step, uint64_t step, uint64_t answers);

/* The directory may appear later, go, and come back. What it holds at first is no news. It is
 * looked at only when something in it changes, never at intervals: a file server that hangs would
 * stop the agent. Without inotify nothing is ever seen, which is said in the log. Precondition: dir
 * is no longer than a path may be. */
struct checkpoints *checkpoints_new(struct event_base *base, const char *dir, checkpoints_fn *fn,
                                    void *ctx);
void checkpoints_free(struct checkpoints *c);

/* An epoch begins: what was saved before is no news, and no ask of before counts. */
void checkpoints_begin(struct checkpoints *c);

/* Reports what has come by now. */
void checkpoints_catch_up(struct checkpoints *c);

/* The scripts are asked for a checkpoint. May report one that came before this. */
void checkpoints_ask(struct checkpoints *c, uint64_t number);

/* The highest epoch that the tfe package has saved in the directory, by the names of its files; 0:
 * none, or the directory cannot be read. A server that has lost its memory counts on from there:
 * else every save would be refused as stale. Reads the directory now. */
uint64_t checkpoints_epoch(const char *dir);

#endif
