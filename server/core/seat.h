/* server/core/seat.h: a node's part in its job's current epoch. */
#ifndef TFE_SERVER_CORE_SEAT_H
#define TFE_SERVER_CORE_SEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

struct node;

/* Slot of a member. For other nodes all fields are zero, except index and idle_since. Written by
 * seat.c. */
struct seat {
    uint32_t index;    /* index of the slot in the epoch, or NO_SEAT */
    bool is_accounted; /* no trainer of this member in this epoch runs any more */
    /* rank 0 only: since when it has shown no sign of life; NEVER if it shows some */
    struct tfe_mono idle_since;
    bool has_counted;  /* counted: its trainers ended well, for the job's success */
    bool is_started;   /* START was sent to it, or will be when it reconnects */
    bool is_listening; /* its trainers accept connections */
    bool is_restored;  /* restored from a record: unknown whether its process received START */
    bool is_dead;      /* suspect: probes have proven that its trainers are dead */
    bool has_told;     /* it has reported progress of this epoch */
    bool listens;      /* its scripts can be asked to save, by its latest report */
    /* Another process has joined with the node's id. The first one's trainers run until their fence
     * at taken_fence_end, unless its agent learns that it was replaced. */
    bool is_taken_over;
    uint32_t n_void; /* number of STARTs that it has answered with JOIN on the same connection */
    struct tfe_mono taken_fence_end;
    bool is_alone;         /* its trainers do not use the cluster that they were given */
    uint64_t told_visit;   /* connection on which START was last sent to it */
    uint64_t save_told;    /* number of the last SAVE sent on this connection */
    uint64_t kept_answers; /* number of the last SAVE for which its memory keeps the state */
    /* For a worker without which the epoch can go on (place.h): */
    bool is_done;        /* its trainers have ended with exit status 0 and are not started again */
    bool is_due;         /* its trainers have ended and are started again at `due` */
    bool will_drain;     /* its trainers are stopped at `due` */
    bool is_draining;    /* STOP has been sent to its trainers */
    uint32_t n_vain;     /* consecutive restarts without a step in between */
    uint32_t pause_ms;   /* pause before the latest restart */
    uint64_t n_restarts; /* number of the last RESTART */
    uint64_t began_at;   /* the job's step at the latest restart */
    struct tfe_mono due;
};

#define SEAT_NONE ((struct seat){.index = NO_SEAT, .idle_since = TFE_MONO_NEVER})

/* Gives the node this slot in a new epoch. */
void seat_take(struct node *node, uint32_t index);
/* Clears the slot: the epoch is over, or the node has left it. */
void seat_leave(struct node *node);
/* Gives the node its slot in an adopted epoch: its trainers are assumed to run. */
void seat_adopt(struct node *node, uint32_t index, bool is_listening);
/* Gives the node its slot in an adopted epoch, from a record. */
void seat_restore(struct node *node, uint32_t index);

/* Marks the member as accounted for, by its agent's report: no trainer of it in the current epoch
 * runs any more. */
void seat_account(struct node *node);
/* Counts the member's good end for the job's success. Returns false if it was counted before. */
bool seat_count_success(struct node *node);
/* Marks the member as dead and accounted for, because other nodes found its ports closed. */
void seat_prove_dead(struct node *node);
/* Notes that the node has reconnected: a proof of its death is void, and messages may have been
 * lost. */
void seat_is_back(struct node *node);
/* Marks START as sent. Returns false if the node is disconnected and will get it when it
 * reconnects. */
bool seat_start(struct node *node);
void seat_set_listening(struct node *node);
void seat_set_told(struct node *node, const struct msg_progress *progress);
void seat_set_save_told(struct node *node, uint64_t number);
/* Marks the slot as taken over: another process has joined with the node's id. The first one's
 * fence ends at fence_end. */
void seat_take_over(struct node *node, struct tfe_mono fence_end);
/* Counts a START that was answered with JOIN on the same connection. Returns true if that was once
 * too often. */
bool seat_has_voided(struct node *node);
/* Schedules a restart of the node's trainers after pause_ms. */
void seat_wait(struct node *node, struct tfe_mono now, uint32_t pause_ms, uint32_t n_vain);
/* Takes the next RESTART number; the job has reached this step. */
void seat_restart(struct node *node, uint64_t step);
/* Notes that the last RESTART is sent again on the present connection. */
void seat_tell_again(struct node *node);
/* Marks the node's trainers as running, as it reports. restart: number of the RESTART that started
 * them, 0 for START. */
void seat_resume(struct node *node, uint64_t restart);
/* Raises the number of RESTARTs to one that the node has reported. */
void seat_note_restarts(struct node *node, uint64_t restart);
/* Leaves the slot empty: its trainers are not started again after n_vain restarts without a
 * step. */
void seat_leave_empty(struct node *node, uint32_t n_vain);
/* Records that the trainers of a served worker have ended with exit status 0 and are not started
 * again in this epoch. */
void seat_finish(struct node *node);
/* Sets since when the node's trainers have shown no sign of life; NEVER if they do. */
void seat_set_idle(struct node *node, struct tfe_mono since);
/* seat_drain: schedules the stop of the node's trainers. seat_begin_drain: marks STOP as sent. */
void seat_drain(struct node *node, struct tfe_mono due);
void seat_begin_drain(struct node *node);
/* Cancels a scheduled stop. */
void seat_stay(struct node *node);
/* Returns by when trainers of this slot whose end is unknown must have ended. */
struct tfe_mono seat_fence_end(const struct node *node);

#endif
