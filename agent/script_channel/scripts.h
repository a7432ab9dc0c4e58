/* agent/script_channel/scripts.h: channel to this node's training scripts (TFE_SOCKET,
 * PROTOCOL.md section 10): receives their progress and sends them requests. On libevent. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_SCRIPTS_H
#define TFE_AGENT_SCRIPT_CHANNEL_SCRIPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/message/msg.h"

struct event_base;
struct script_message;
struct scripts;

/* Reports the current progress of a trainer and the node's checkpoints in the epoch, after any
 * change. has_trained means that the trainer has completed a step in this epoch rather than only
 * restored a checkpoint. Called from the event loop and from inside scripts_save, _stop, _end
 * and _trainer_ended. progress is borrowed for the call. */
typedef void scripts_progress_fn(void *ctx, uint32_t local, bool has_trained,
                                 const struct msg_progress *progress);

/* Passes on a message of a script, borrowed for the call:
 * - PROGRESS with samples, total or metrics; its step is the last known one if it has none
 * - ENDS: the main thread of the script has ended, and the process will exit with this status
 * - REMARK about a distribution strategy or about a module imported after the start
 * - ARTIFACT: state of the copy of the artifacts */
typedef void scripts_message_fn(void *ctx, uint32_t local, const struct script_message *message);

/* Options of a channel. Pointers except base and ctx are borrowed for the call. */
struct scripts_options {
    struct event_base *base;
    uint32_t nproc;
    /* parent of the private directory, or NULL for the default (private_dir.h) */
    const char *private_base;
    const char *checkpoint_dir; /* TensorFlow checkpoint directory to watch, or NULL */
    uint64_t state_memory;      /* limit for snapshots, see state_memory.h */
    bool has_artifacts;         /* create the directory for artifacts */
    scripts_progress_fn *on_progress;
    scripts_message_fn *on_message; /* NULL if not needed */
    void *ctx;
};

/* Creates the channel. If its directory or socket cannot be created, logs a warning; the
 * functions below then do nothing. */
struct scripts *scripts_new(const struct scripts_options *options);

/* Removes the socket and the directory. Accepts NULL. */
void scripts_free(struct scripts *s);

/* Return paths for the trainers' environment, constant for the agent's lifetime, or NULL
 * without a channel. */
const char *scripts_socket(const struct scripts *s);
const char *scripts_preempt_file(const struct scripts *s);
/* Returns the $TMPDIR for trainers, or NULL without a channel or if the user has set TMPDIR.
 * Files that trainers leave there are removed after their end, by the agent or the guard:
 * TensorFlow leaves one file per rewritten function when it is killed. */
const char *scripts_tmp_dir(const struct scripts *s);

/* Returns $TFE_ARTIFACTS, a directory that lasts as long as the agent; NULL without has_artifacts
 * or without a channel. */
const char *scripts_artifacts_dir(const struct scripts *s);

/* Prepares for the trainers of an epoch; rank is that of the first trainer. */
void scripts_begin(struct scripts *s, uint64_t epoch, uint32_t rank);

/* Ends the epoch: forgets all scripts and removes the preempt file. */
void scripts_end(struct scripts *s);

/* Handles progress that script_line_read found in a trainer's output. */
void scripts_printed(struct scripts *s, uint32_t local, struct script_message *progress);

/* Handles the end of a trainer, whose script no longer listens. */
void scripts_trainer_ended(struct scripts *s, uint32_t local);

/* Requests a checkpoint from all scripts that listen, now or later in this epoch, and creates
 * the preempt file. deadline is the latest time of the switch, or TFE_MONO_NEVER. With in_memory
 * a snapshot kept in memory also satisfies the request. */
void scripts_save(struct scripts *s, uint64_t epoch, uint64_t number, struct tfe_mono deadline,
                  bool in_memory);

/* Tells every script that listens, before a planned sweep, that it ends in grace_ms. With
 * in_memory a snapshot kept in memory is enough. Returns the number of listening scripts and
 * sets a bit by local rank in *ret_handlers for each other script with a SIGTERM handler; if
 * both are 0 there is nothing to wait for. */
uint32_t scripts_stop(struct scripts *s, uint64_t epoch, uint32_t grace_ms, bool in_memory,
                      uint64_t *ret_handlers);

#endif
