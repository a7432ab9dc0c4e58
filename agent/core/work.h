/* agent/core/work.h: the epoch whose trainers run on this node: start, end, account for it. */
#ifndef TFE_AGENT_CORE_WORK_H
#define TFE_AGENT_CORE_WORK_H

#include "agent/core/turn.h"
#include "common/base/id.h"

/* The trainers:  IDLE --START--> RUNNING --(exit, STOP, fence …)--> SWEEPING --SWEPT--> IDLE */
enum work_state { WORK_IDLE, WORK_RUNNING, WORK_SWEEPING };

struct work {
    enum work_state state;
    uint64_t epoch;   /* RUNNING, SWEEPING: whose trainers; IDLE: of the last ones */
    uint64_t highest; /* epoch started, stopped or told of, or that has left checkpoints */
    uint32_t starts;  /* times that trainers were started */
    uint32_t n;       /* trainers of that epoch … */
    uint32_t alive;   /* … that have not ended */
    uint64_t restart; /* number of the RESTART that started them; 0: START did */
    bool evaluates;   /* outside of the epoch's table */
    bool is_served;   /* as a chief, by ps */
    bool first_ended_well;
    bool others_ended_well; /* of the trainers here, one that is not the job's rank 0 */
    bool has_come_to_end;   /* the first's script has, well; its process need not get out */
    bool has_listened;
    bool sweeps_gently;            /* SWEEPING: the trainers that listen still have their grace */
    struct tfe_mono exit_deadline; /* RUNNING: of those that have not followed the others' end */
    uint32_t stop_grace_ms;
    struct tfe_mono idle_since; /* RUNNING: no trainer has shown a sign of life since; NEVER */

    /* How the trainers of `epoch` came to their end; decided once. */
    bool is_decided;
    bool exit_pending; /* EXITED not yet NOTED */
    bool exit_joined;  /* … and the JOIN under way carries it */
    struct msg_exited exited;
    char tail[MSG_TAIL_MAX + 1];

    /* What a server that has lost its disk is told of `epoch`. */
    struct msg_running running;
    uint16_t ports[MSG_NPROC_MAX];
    char host[TFE_HOST_MAX + 1];
};

void work_init(struct work *w, struct turn *t);

/* The half of a JOIN that tells of epochs. */
struct msg_join work_join(struct work *w);
/* Says what came up between the JOIN and its WELCOME. */
void work_welcome(struct work *w, struct turn *t, uint32_t stop_grace_ms);

/* How many trainers a START begins here, by the rows of its table. */
uint32_t work_trainers(const struct turn *t, const struct msg_start *start,
                       const struct msg_row *rows, size_t n_rows);
/* Precondition: idle, above the highest; the node was READY with that host and these ports, nproc
 * of them. work_spawn follows. */
void work_start(struct work *w, struct turn *t, const struct msg_start *start, const char *host,
                const uint16_t *ports);
/* Starts what was told; rows is the whole table. */
void work_spawn(struct work *w, struct turn *t, const struct msg_row *rows, size_t n_rows);

/* Whether it was followed already, or is about what ended here and nothing has come after. */
bool work_has_started(const struct work *w, const struct msg_restart *restart);
bool work_awaits(const struct work *w, const struct msg_restart *restart);
/* Precondition: work_awaits. work_spawn follows. */
void work_restart(struct work *w, const struct msg_restart *restart);

/* Ends what runs, at once; why is a static fragment for the log. */
void work_stop(struct work *w, struct turn *t, const char *reason);
/* … of this epoch and all before it; planned: trainers that listen have the stop grace. */
void work_stop_epoch(struct work *w, struct turn *t, const struct msg_stop *stop);

/* True: it was one of those that count here. */
bool work_trainer_exited(struct work *w, struct turn *t, const struct msg_exited *end);
void work_fenced(struct work *w, struct turn *t);
/* Ends a SWEEPING: says what became of the trainers. True: nothing runs any more since now. */
bool work_swept(struct work *w, struct turn *t);
/* The guard has died and everything with it. True: as above. */
bool work_guard_lost(struct work *w, struct turn *t);
void work_noted(struct work *w, uint64_t epoch);

void work_listening(struct work *w, struct turn *t, uint64_t epoch);
/* The script of that trainer has come to its end, well. The chief of a job with ps may not get out
 * of it then, for it waits for a worker that is missing: it has the exit grace for what it still
 * does, the rest of a checkpoint, say. */
void work_ends(struct work *w, struct turn *t, uint32_t local_rank);
void work_set_idle(struct work *w, struct tfe_mono since);
/* What RENEW says of rank 0, where it is on this node. */
void work_describe_rank0(const struct work *w, const struct turn *t, struct msg_renew *ret);
void work_tick(struct work *w, struct turn *t);
struct tfe_mono work_deadline(const struct work *w);

bool work_runs(const struct work *w, uint64_t epoch);
/* Nothing of an older epoch runs here. */
bool work_is_free(const struct work *w);
uint64_t work_highest(const struct work *w);

#endif
