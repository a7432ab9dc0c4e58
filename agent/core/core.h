/* agent/core/core.h: what the agent's core keeps. Private to agent/core. */
#ifndef TFE_AGENT_CORE_CORE_H
#define TFE_AGENT_CORE_CORE_H

#include "agent/core/agent.h"
#include "common/base/assert.h"
#include "common/base/bug.h"
#include "common/base/rng.h"

/* Actions of one step: a handful of messages, traces and orders, whatever the event. */
#define ACTIONS_MAX 32

/* Renewals under way whose sending time is remembered: with ttl/3 between two, more are not
 * answered within a lease. */
#define RENEWALS_MAX 8

/* The connection:  DOWN --CONNECT--> CONNECTING --> JOINING --WELCOME--> UP --> DOWN */
enum link_state { LINK_DOWN, LINK_CONNECTING, LINK_JOINING, LINK_UP };

/* The trainers:  IDLE --START--> RUNNING --(exit, STOP, fence …)--> SWEEPING --SWEPT--> IDLE */
enum work_state { WORK_IDLE, WORK_RUNNING, WORK_SWEEPING };

/* What is to be done once nothing runs any more. Later ones override earlier ones. */
enum after_sweep {
    AFTER_NOTHING,
    AFTER_GOODBYE, /* drain: leave the job, then exit with exit_code */
    AFTER_EXIT     /* exit with exit_code */
};

struct link {
    enum link_state state;
    bool token_worked; /* in this process */
    bool ever_up;
    uint32_t unauthorised; /* tries in a row */
    struct tfe_mono since; /* of the first try in a row that did not succeed */
    struct tfe_mono say_next;
    struct tfe_mono retry_at;
    uint32_t backoff_ms;
    uint32_t spread_ms;
    uint32_t ttl_ms;
    uint32_t renew_ms;
    uint32_t stop_grace_ms;
    struct tfe_mono renew_at;
    struct tfe_mono join_sent;
    uint64_t renewals; /* number of the last RENEW on this connection */
    struct tfe_mono renew_sent[RENEWALS_MAX];
    struct tfe_mono
        granted; /* the sending of what the server last answered: fences count from it */
    struct tfe_mono lease_end; /* on the agent's own clock */
    struct tfe_mono
        silent_at;    /* JOINING, UP: nothing was answered by then, try another connection */
    bool exited_told; /* the JOIN under way carried the pending EXITED */
    char why[MSG_SENTENCE_MAX]; /* the last try failed */
};

/* What all trainers of this node have told of the epoch that runs here. */
struct progress {
    struct agent_progress all;
    uint64_t listeners;   /* which of them listen, by local rank */
    bool is_told;         /* … to the server, as it is */
    struct tfe_mono next; /* when something may be told again */
};
_Static_assert(MSG_NPROC_MAX <= 64, "a bit of listeners each");

/* Warnings that this machine will go away, by kind; and what the server has heard of them. */
struct notices {
    bool stands[NOTICE_OPERATOR + 1];
    struct agent_notice v[NOTICE_OPERATOR + 1];
    struct tfe_mono back_at[NOTICE_OPERATOR + 1]; /* it has not come true by then */
    enum tfe_notice told;                         /* 0: none stands */
    enum tfe_notice ever;                         /* the last that was told at all */
    struct tfe_mono told_deadline;
    uint32_t signal;             /* this one ends the agent once its trainers have ended; 0 none */
    struct tfe_mono out_at;      /* … and ends them then in any case */
    struct tfe_mono last_moment; /* what out_at is once a server has heard of it */
};

struct table {
    uint64_t epoch;
    uint64_t digest; /* once it has proven to be what a START named; 0: nothing may be told as
                        changes of it */
    uint64_t base;   /* the rows that came changed the table of this digest; 0: it came whole */
    uint32_t world;
    size_t n;             /* rows filled: they come in order */
    struct msg_row *rows; /* host NULL until complete, then into hosts */
    size_t cap_rows;
    size_t *host_at;
    size_t cap_host_at;
    char *hosts;
    size_t n_hosts;
    size_t cap_hosts;
};

struct agent {
    struct agent_config config;
    const struct tfe_mem *mem;
    struct tfe_mono now;
    struct tfe_mono deadline;
    struct rng rng;
    struct link link;
    struct table table;  /* of the last epoch that began here */
    struct table coming; /* of the next one; epoch 0: no chunk of it is here */

    enum work_state work;
    uint64_t epoch;   /* RUNNING, SWEEPING: whose trainers */
    uint64_t highest; /* epoch started, stopped or told of, or that has left checkpoints */
    uint64_t prepare; /* the server wants READY for this one; 0 none */
    bool asked; /* … and has said so on this connection: what an earlier one wanted may be over */
    bool fresh_ports;
    bool answer;   /* the server wants probes of the ports to be answered */
    bool answers;  /* they are */
    uint64_t held; /* the epoch that ports are held for */
    uint16_t ports[MSG_NPROC_MAX];
    char host[TFE_HOST_MAX + 1];
    /* RUNNING: what a server that has lost its disk is told of the epoch. */
    struct msg_running running;
    uint16_t running_ports[MSG_NPROC_MAX];
    char running_host[TFE_HOST_MAX + 1];
    uint32_t starts; /* epochs started */
    uint32_t alive;  /* trainers */
    bool first_ended_well;
    struct tfe_mono exit_deadline;
    bool has_listened;
    struct progress progress;
    struct notices notices;
    bool sweeps_gently; /* SWEEPING: the trainers that listen still have their grace */

    /* How the trainers of `epoch` came to their end; decided once. */
    bool decided;
    bool exit_pending; /* EXITED not yet NOTED */
    struct msg_exited exited;
    char tail[MSG_TAIL_MAX + 1];

    enum after_sweep after;
    int exit_code;
    bool has_sentence;
    char sentence[MSG_SENTENCE_MAX];
    struct tfe_mono leave_by; /* GOODBYE has been sent: wait for the close until then */
    bool leaving;
    bool begun;
    bool over; /* EXIT has been said */

    struct { /* of the last PROBE: what its action points to */
        struct tfe_id node;
        char host[TFE_HOST_MAX + 1];
        uint16_t ports[MSG_NPROC_MAX];
    } probe;

    uint32_t guard_pid;
    bool guard_lost; /* and no new one is there yet: nothing can be started */
    uint32_t pids[MSG_NPROC_MAX];
    uint32_t told_pids[MSG_NPROC_MAX];
    uint32_t standby_pids[MSG_NPROC_MAX];
    uint32_t told_standby_pids[MSG_NPROC_MAX];
    uint32_t live_standby_pids[MSG_NPROC_MAX];
    uint32_t live_pids[MSG_NPROC_MAX]; /* what the last PROCESSES points to */

    struct agent_action actions[ACTIONS_MAX];
    size_t n_actions;
};

/* --- agent.c ---------------------------------------------------------------------------------- */
struct agent_action *act_push(struct agent *a, enum agent_action_type type);
struct tfe_msg *act_send(struct agent *a, enum tfe_msg_type type);
struct agent_action *act_trace(struct agent *a, enum agent_trace_kind kind, uint64_t number,
                               const char *text);
/* Ends the process once nothing runs any more, for the server's sake with a GOODBYE or without;
 * sentence may be NULL. The first wish stays. */
void leave_with(struct agent *a, enum after_sweep how, int code, const char *sentence);
/* EXIT, with what leave_with was told. */
void act_exit(struct agent *a);

/* --- link.c: connecting, joining, renewing ---------------------------------------------------- */
void link_begin(struct agent *a);
void link_connected(struct agent *a, const char *host);
void link_disconnected(struct agent *a, enum agent_link how, const char *text);
void link_tick(struct agent *a);
/* There is little time left to find the server again: the tries follow each other as after a first
 * one. */
void link_hurry(struct agent *a);
void link_join(struct agent *a);
void link_welcome(struct agent *a, const struct msg_welcome *welcome);
void link_renewed(struct agent *a, const struct msg_renewed *renewed);
void link_lease_ended(struct agent *a);
/* START tells the fence of its epoch (0: it does not). */
void link_fence(struct agent *a, uint32_t fence_ms);
/* When the link wants to be ticked. */
struct tfe_mono link_deadline(const struct agent *a);
/* Tells the process ids if they have changed. */
void link_tell_processes(struct agent *a);

/* --- work.c: epochs on this node -------------------------------------------------------------- */
void work_prepare(struct agent *a, const struct msg_prepare *prepare);
void work_ports_held(struct agent *a, uint64_t epoch, const uint16_t *ports);
void work_start(struct agent *a, const struct msg_start *start);
/* Ends what runs; why is a static fragment for the log. */
void work_stop(struct agent *a, const char *why);
void work_stop_epoch(struct agent *a, const struct msg_stop *stop);
void work_trainer_exited(struct agent *a, const struct agent_event *event);
void work_listening(struct agent *a, uint64_t epoch);
void work_swept(struct agent *a);
void work_guard_lost(struct agent *a);
void work_fenced(struct agent *a);
void work_noted(struct agent *a, uint64_t epoch);
/* Says what came up between the JOIN and its WELCOME. */
void work_welcome(struct agent *a);
void work_tick(struct agent *a);
/* Once idle and wanted: the way out. */
void work_leave(struct agent *a);
/* READY, if it is wanted and true. */
void work_ready(struct agent *a);

/* --- progress.c: how far the trainers have come ----------------------------------------------- */
/* A new epoch runs here: nothing is known of it. */
void progress_begin(struct agent *a);
/* TFE_EINVAL: no such trainer. */
int progress_take(struct agent *a, const struct agent_event *event);
void progress_welcome(struct agent *a);
void progress_tick(struct agent *a);
/* When it wants to be ticked. */
struct tfe_mono progress_deadline(const struct agent *a);
void progress_ask(struct agent *a, const struct msg_save *save);

/* --- notice.c: machines that go away ---------------------------------------------------------- */
/* TFE_EINVAL: no such kind. source is for the log. */
int notice_take(struct agent *a, const struct agent_notice *notice, const char *source);
void notice_signal(struct agent *a, uint32_t signo);
void notice_welcome(struct agent *a);
void notice_tick(struct agent *a);
/* At the end of every step: the way out after a signal, once nothing runs or at the last moment. */
void notice_settle(struct agent *a);
/* When it wants to be ticked. */
struct tfe_mono notice_deadline(const struct agent *a);

/* --- probe.c: answering others' probes, and probing others ------------------------------------ */
/* Answers probes on the held ports, or stops it; nothing if that is so. */
void probe_answer(struct agent *a, bool answer);
/* TFE_EINVAL: no id, no host, or not as many ports as a node can have. */
int probe_take(struct agent *a, const struct msg_probe *probe);
void probe_done(struct agent *a, uint64_t probe, enum tfe_probe_result result);

/* --- table.c: the cluster table, chunk by chunk ----------------------------------------------- */
/* TFE_ENOMEM, TFE_EINVAL (rows not in order, changes of a table that is not here): nothing changed.
 */
int table_take(struct agent *a, const struct msg_table *chunk) TFE_MUST_CHECK;
/* Whether the table of the epoch is here whole and has this digest: it is a->table then, its rows
 * usable until the next one is. Else a->table has no digest any more, and the next one has to come
 * whole. */
bool table_begin(struct agent *a, uint64_t epoch, uint64_t digest);
void table_done(struct agent *a);

#endif
