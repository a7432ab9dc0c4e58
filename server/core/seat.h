/* server/core/seat.h: a node's part in its job's current epoch. */
#ifndef TFE_SERVER_CORE_SEAT_H
#define TFE_SERVER_CORE_SEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct node;

/* Of a member; all zero but for the index for who is none. Written by seat.c. */
struct seat {
    uint32_t index;             /* in the epoch, or NO_SEAT */
    bool is_accounted;          /* nothing of its trainers of this epoch runs any more */
    struct tfe_mono idle_since; /* of rank 0: no sign of life of it since; NEVER: it shows some */
    bool has_counted;           /* it has ended well, for the job's success */
    bool is_started;            /* it has been told START, or will be when it comes back */
    bool is_listening;          /* its trainers could be reached */
    bool is_restored; /* of a record: whether its process was told of the epoch is not known */
    bool is_dead;     /* a suspect: others' probes have proven that its trainers are */
    bool has_told;    /* something of the epoch's progress … */
    bool listens;     /* … and last, that its scripts can be asked to save */
    /* Another process has come with the node's id. What the first one ran goes on until its fence,
     * taken_fence_end, unless it hears that it was replaced. */
    bool is_taken_over;
    uint32_t n_void; /* STARTs that it has answered with JOIN on the same connection */
    struct tfe_mono taken_fence_end;
    bool is_alone;         /* its trainers do not use the cluster that they were given */
    uint64_t told_visit;   /* on which it has been told START */
    uint64_t save_told;    /* number of the last SAVE it was sent, on this visit */
    uint64_t kept_answers; /* … of that for which it has kept its state in memory */
    /* Of a place that the others do without (place.h). */
    bool is_done;        /* its trainers have ended with exit status 0: they do not start again */
    bool is_due;         /* its trainers have ended, and start again then (or have, last): */
    bool will_drain;     /* … or they are stopped then */
    bool is_draining;    /* … and have been told to */
    uint32_t n_vain;     /* times that they were started again without a step in between */
    uint32_t pause_ms;   /* before they were started again last */
    uint64_t n_restarts; /* number of the last RESTART */
    uint64_t began_at;   /* the job's step then */
    struct tfe_mono due;
};

#define SEAT_NONE ((struct seat){.index = NO_SEAT, .idle_since = TFE_MONO_NEVER})

/* A new epoch: the node has this seat, and nothing has happened there yet. */
void seat_take(struct node *node, uint32_t index);
/* The epoch is over, or the node leaves it. */
void seat_leave(struct node *node);
/* As a server that adopts the epoch finds it: its trainers run, for all that is known. */
void seat_adopt(struct node *node, uint32_t index, bool is_listening);
/* … and for all that a record says of it. */
void seat_restore(struct node *node, uint32_t index);

/* Nothing of its trainers of the current epoch runs any more: by its own word … */
void seat_account(struct node *node);
/* They have ended well, for the job's success. False: that was known. */
bool seat_count_success(struct node *node);
/* … or by others' who found its ports closed. */
void seat_prove_dead(struct node *node);
/* It is here again: what proved it dead did not, and what it was told may be lost. */
void seat_is_back(struct node *node);
/* It is told START now, or (false) when it comes back. */
bool seat_start(struct node *node);
void seat_set_listening(struct node *node);
void seat_set_told(struct node *node, const struct msg_progress *progress);
void seat_set_save_told(struct node *node, uint64_t number);
/* Another process has come with the node's id; the fence of what the first one ran ends then. */
void seat_take_over(struct node *node, struct tfe_mono fence_end);
/* It has answered a START with JOIN on one connection: whether once too often. */
bool seat_has_voided(struct node *node);
/* Its trainers have ended, and are to be started again so long from now. */
void seat_wait(struct node *node, struct tfe_mono now, uint32_t pause_ms, uint32_t n_vain);
/* They are: the next RESTART, where the job has come to this step. */
void seat_restart(struct node *node, uint64_t step);
/* That is told once more. */
void seat_tell_again(struct node *node);
/* They run, by its own word, started by that RESTART (0: by START). */
void seat_resume(struct node *node, uint64_t restart);
/* There was a RESTART of that number. */
void seat_note_restarts(struct node *node, uint64_t restart);
/* They are not started again, so often in vain. */
void seat_leave_empty(struct node *node, uint32_t n_vain);
/* Records that the trainers of a served worker's place have ended with exit status 0 and do not
 * start again in this epoch. */
void seat_finish(struct node *node);
/* The node's trainers have shown no sign of life since then; NEVER: they do. */
void seat_set_idle(struct node *node, struct tfe_mono since);
/* They are to be stopped then; they are now. */
void seat_drain(struct node *node, struct tfe_mono due);
void seat_begin_drain(struct node *node);
/* … or not, after all. */
void seat_stay(struct node *node);
/* By when the trainers of this epoch have ended that nothing is known of. */
struct tfe_mono seat_fence_end(const struct node *node);

#endif
