/* agent/script_channel/scripts.h: the channel to the training scripts of this node (TFE_SOCKET):
 * what they tell of their progress, and what the agent asks of them. On libevent; PROTOCOL.md,
 * section 10. */
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

/* What is known now of the trainer, and of the node's checkpoints, in the epoch: something of it
 * has changed. has_trained: it has done a step in it, not only read a checkpoint's. From the loop,
 * or from inside scripts_save, _stop, _end and _trainer_ended. Borrowed for the call. */
typedef void scripts_news_fn(void *ctx, uint32_t local, bool has_trained,
                             const struct msg_progress *told);

/* What a script of the running epoch tells for people: a PROGRESS with samples, total or metrics;
 * its step is the last one known where it tells none. Borrowed for the call. */
typedef void scripts_told_fn(void *ctx, uint32_t local, const struct script_message *told);

/* The main thread of this trainer's script is through, and the process is to end with this exit
 * status. */
typedef void scripts_ends_fn(void *ctx, uint32_t local, uint32_t code);

/* This trainer's script has made a strategy. */
typedef void scripts_strategy_fn(void *ctx, uint32_t local);

/* Borrowed for the call, but base and ctx. */
struct scripts_wish {
    struct event_base *base;
    uint32_t nproc;
    const char *private_base;   /* where to make the private directory; NULL: see private_dir.h */
    const char *checkpoint_dir; /* TensorFlow's, watched too; NULL: none */
    uint64_t state_memory;      /* see state_memory.h */
    scripts_news_fn *on_news;
    scripts_told_fn *on_told;         /* NULL: nobody wants to know */
    scripts_ends_fn *on_ends;         /* likewise */
    scripts_strategy_fn *on_strategy; /* likewise */
    void *ctx;
};

/* Without a directory for the socket there is no channel: said in the log, and everything below
 * works without one. */
struct scripts *scripts_new(const struct scripts_wish *wish);

/* Removes socket and directory. NULL is allowed. */
void scripts_free(struct scripts *s);

/* Paths for the trainers' environment, the same for the agent's life; NULL: there is no channel. */
const char *scripts_socket(const struct scripts *s);
const char *scripts_preempt_file(const struct scripts *s);
/* Likewise, for their $TMPDIR: what they leave there is removed once they are gone, by whoever is
 * left. TensorFlow leaves a file for each function that it rewrites, where it is killed. NULL, too,
 * where the user has chosen another. */
const char *scripts_tmp_dir(const struct scripts *s);

/* The trainers of epoch are about to start here; the first of them has this rank. */
void scripts_begin(struct scripts *s, uint64_t epoch, uint32_t rank);

/* Nothing of any epoch runs here any more: who listened is forgotten, the preempt file removed. */
void scripts_end(struct scripts *s);

/* The trainer of this place has printed what script_line_read has read. */
void scripts_printed(struct scripts *s, uint32_t local, struct script_message *told);

/* The trainer has ended: nobody listens there any more. */
void scripts_trainer_ended(struct scripts *s, uint32_t local);

/* Asks every script that listens for a checkpoint, and those that will listen in this epoch when
 * they say so; creates the preempt file. deadline: when the switch comes in any case, or
 * TFE_MONO_NEVER. in_memory: the state after some step answers it too, where memory keeps it. */
void scripts_save(struct scripts *s, uint64_t epoch, uint64_t number, struct tfe_mono deadline,
                  bool in_memory);

/* Before a planned sweep: tells every script that listens that it is ended in grace_ms, in_memory:
 * and that its state need not be on disk by then, if memory keeps it. Returns how many listen, and
 * through ret_handlers, a bit per local rank, who does not, but has a handler of SIGTERM; with none
 * of either there is nothing to wait for. */
uint32_t scripts_stop(struct scripts *s, uint64_t epoch, uint32_t grace_ms, bool in_memory,
                      uint64_t *ret_handlers);

#endif
