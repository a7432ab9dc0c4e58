/* agent/core/work.h: the trainers of the current epoch on this node: start, end and exit report. */
#ifndef TFE_AGENT_CORE_WORK_H
#define TFE_AGENT_CORE_WORK_H

#include "agent/core/step_context.h"
#include "common/base/id.h"

/* Transitions: IDLE --START--> RUNNING --(exit, STOP, fence)--> SWEEPING --SWEPT--> IDLE */
enum work_state { WORK_IDLE, WORK_RUNNING, WORK_SWEEPING };

struct work {
    enum work_state state;
    uint64_t epoch; /* epoch of the running trainers; in IDLE, of the last trainers */
    /* highest epoch that was started, stopped, announced or found in checkpoints */
    uint64_t highest;
    uint32_t starts;  /* how many times trainers were started */
    uint32_t n;       /* number of trainers of the epoch */
    uint32_t n_alive; /* trainers that have not exited */
    uint64_t restart; /* number of the RESTART that started the trainers; 0 if START did */
    bool evaluates;   /* the trainer is an evaluator, which is not in the cluster table */
    bool is_ps_chief; /* the trainer is the chief of a job with parameter servers */
    bool first_succeeded;
    bool other_succeeded; /* a local trainer other than the job's rank 0 has succeeded */
    /* the first trainer's script has returned successfully; its process may hang */
    bool script_succeeded;
    bool has_listened;
    bool has_grace; /* SWEEPING: the grace period of trainers that listen is running */
    /* RUNNING: when trainers that outlive rank 0's success are killed, or NEVER */
    struct tfe_mono exit_deadline;
    uint32_t stop_grace_ms;
    struct tfe_mono idle_since; /* RUNNING: time since which no trainer is active, or NEVER */

    /* Exit report of `epoch`; decided once. */
    bool is_decided;
    bool exit_pending; /* EXITED has not been acknowledged by NOTED */
    bool exit_joined;  /* the outstanding JOIN carries the exit report */
    struct msg_exited exited;
    char tail[MSG_TAIL_MAX + 1];

    /* Description of `epoch` for a server that has lost its records. */
    struct msg_running running;
    uint16_t ports[MSG_NPROC_MAX];
    char host[TFE_HOST_MAX + 1];
};

void work_init(struct work *w, struct step_context *t);

/* Returns a JOIN with the fields about epochs set. */
struct msg_join work_join(struct work *w);
/* Reports events that happened between JOIN and WELCOME. */
void work_welcome(struct work *w, struct step_context *t, uint32_t stop_grace_ms);

/* Returns the number of trainers that START begins on this node, given the rows of its table. */
uint32_t work_trainers(const struct step_context *t, const struct msg_start *start,
                       const struct msg_row *rows, size_t n_rows);
/* Records a new epoch; work_spawn must follow. Precondition: nothing runs, the epoch is above
 * `highest`, and READY announced this host and these nproc ports. */
void work_start(struct work *w, struct step_context *t, const struct msg_start *start,
                const char *host, const uint16_t *ports);
/* Starts the trainers of the recorded epoch. rows is the complete table. */
void work_spawn(struct work *w, struct step_context *t, const struct msg_row *rows, size_t n_rows);

/* Returns true if this RESTART was already carried out. */
bool work_has_started(const struct work *w, const struct msg_restart *restart);
bool work_can_restart(const struct work *w, const struct msg_restart *restart);
/* Records a RESTART; work_spawn must follow. Precondition: work_can_restart. */
void work_restart(struct work *w, const struct msg_restart *restart);

/* Terminates all trainers without grace. reason is a static fragment for the log. */
void work_stop(struct work *w, struct step_context *t, const char *reason);
/* Terminates the trainers of this epoch or an older one. If the stop is planned, trainers that
 * listen get the stop grace. */
void work_stop_epoch(struct work *w, struct step_context *t, const struct msg_stop *stop);

/* Returns true if the trainer belongs to the current epoch. */
bool work_trainer_exited(struct work *w, struct step_context *t, const struct msg_exited *end);
void work_fenced(struct work *w, struct step_context *t);
/* Completes a sweep and reports the exit. Returns true if the node has just become idle. */
bool work_swept(struct work *w, struct step_context *t);
/* Handles the loss of the guard, which killed all trainers. Returns true if the node has just
 * become idle. */
bool work_guard_lost(struct work *w, struct step_context *t);
void work_noted(struct work *w, uint64_t epoch);

void work_listening(struct work *w, struct step_context *t, uint64_t epoch);
/* Handles the successful end of a trainer's script. The chief of a job with parameter servers may
 * hang in its exit handlers, waiting for a missing worker; it gets the exit grace to finish its
 * output. */
void work_script_ended(struct work *w, struct step_context *t, uint32_t local_rank);
void work_set_idle(struct work *w, struct tfe_mono since);
/* Sets the fields of RENEW about rank 0, if rank 0 runs on this node. */
void work_describe_rank0(const struct work *w, const struct step_context *t, struct msg_renew *ret);
void work_tick(struct work *w, struct step_context *t);
struct tfe_mono work_deadline(const struct work *w);

bool work_runs(const struct work *w, uint64_t epoch);
/* Returns true if no trainer runs. */
bool work_is_idle(const struct work *w);
uint64_t work_highest(const struct work *w);

#endif
