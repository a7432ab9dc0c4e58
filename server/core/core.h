/* server/core/core.h: what the core keeps: jobs, nodes, epochs, timers. Private to server/core. */
#ifndef TFE_SERVER_CORE_CORE_H
#define TFE_SERVER_CORE_CORE_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/assert.h"
#include "common/base/bug.h"
#include "common/base/id.h"
#include "common/base/text.h"
#include "common/base/wheel.h"
#include "server/core/late.h"
#include "server/core/ledger.h"
#include "server/core/probe.h"
#include "server/core/rdzv.h"
#include "server/core/rebuild.h"
#include "server/core/states.h"
#include "server/core/table.h"
#include "server/core/timer.h"
#include "server/core/write.h"

/* Jobs that one server remembers, finished ones included: some 1 KiB each. */
#define CORE_JOBS_MAX 10000

/* Timers worked off in one step; a mass expiry must not hold up the renewals of the living. */
#define CORE_TIMERS_PER_STEP RDZV_PERSIST_MAX

/* Evicted nodes whose JOINs are known and refused: a node's id is its process's, so that nobody
 * else brings it. Older ones would be let in again, as newcomers. */
#define CORE_EVICTED_MAX 256

struct evicted {
    struct tfe_id job;
    struct tfe_id node;
};

#define NO_SESSION UINT32_MAX
#define NO_SEAT UINT32_MAX

/* The place of a node, and until when it is its own. */
struct lease {
    struct core_timer timer;   /* not set: no lease */
    bool counts;               /* among the server's leases */
    bool was_shifted;          /* for a late turn of the server's loop, since the last renewal */
    bool is_held;              /* over, but for a mass loss that is being held; likewise */
    struct tfe_mono fence_end; /* by then its guard has killed its trainers, whatever happens */
};

/* An agent process. Three ways of being: connected (session), suspect (a lease but no session), and
 * gone (no lease; kept only while it has a seat in the current epoch, because a new epoch must know
 * what became of its trainers). */
struct node {
    /* What a renewal looks at, side by side: of thousands of nodes, each is cold memory when its
     * turn comes. */
    struct job *job;
    struct lease lease;
    uint32_t session; /* or NO_SESSION */
    uint32_t seat;    /* in the current epoch, or NO_SEAT */
    uint64_t haunts;  /* an epoch it was left out of while its trainers may have run on; 0 none */
    uint32_t told_spread_ms; /* the last that it was told, on this visit */

    RB_ENTRY(node) by_id;
    struct node *next_dead; /* on the core's list of what the next step frees */
    struct tfe_id id;
    uint64_t join_order;   /* smaller: longer in the job */
    uint64_t ready_epoch;  /* its READY; 0 none */
    uint64_t table_digest; /* of the table it said it holds; 0 none */
    uint64_t visit;        /* tells its sessions apart: their numbers come again */
    uint32_t pid;
    bool gone;
    bool accounted; /* member: nothing of its trainers of the current epoch runs any more */
    bool started;   /* member: has been told START */
    /* Member: another process has come with its id. What the first one ran goes on until its fence,
     * other_fence_end, unless it hears that it was replaced. */
    bool is_other;
    struct tfe_mono other_fence_end;
    uint64_t highest_epoch; /* that this process has followed, for all that is known */
    uint64_t told_visit;    /* on which it has been told START of the current epoch */
    uint32_t n_void;        /* STARTs of it that it has answered with JOIN on the same connection */
    bool leaving;           /* under notice, or drained: in no later epoch */
    bool drained;           /* by an operator: let go as soon as it is not needed */
    enum tfe_notice notice; /* 0: none. REBALANCE is not leaving */
    struct tfe_mono noticed;         /* when it came first */
    struct tfe_mono notice_deadline; /* NEVER: none is known */
    bool listening;                  /* member: its trainers could be reached */
    bool durable; /* as its JOIN said: its machine is not one of those that go away */
    bool is_dead; /* suspect member: others' probes have proven that its trainers are */
    /* Its last READY said that it still answers on its ports; it has been told to stop that. */
    bool answering;
    RB_ENTRY(node) by_answering; /* in the job's tree of them */
    uint64_t answering_epoch;    /* … for which it was READY so */
    uint64_t asked_epoch;        /* it was sent PREPARE for, last, on this visit; 0 none */
    bool asked_answer;           /* … with answer */
    bool released;
    struct tfe_mono released_until; /* … and has to be READY without by then */
    bool is_mute;           /* did not say what came of a PROBE: no prober, until it speaks again */
    uint32_t n_probing;     /* PROBEs it has not answered */
    bool is_proven;         /* it was in an epoch of this run that made progress */
    struct core_timer hold; /* set: in quarantine, for hold_ms */
    uint32_t hold_ms;
    bool reports; /* it runs the epoch that the job is being rebuilt from, or did so: */
    struct report report;
    struct probe probe;
    struct msg_progress progress; /* member: what it last told of the current epoch */
    uint64_t save_told;           /* member: number of the last SAVE it was sent, on this visit */
    uint32_t guard_pid;
    uint32_t n_trainer_pids;
    uint32_t n_standby_pids;
    uint32_t *trainer_pids; /* nproc each, in this node's own block */
    uint32_t *standby_pids;
    uint16_t *ports; /* nproc; valid once it has been ready */
    char *name;
    char host[TFE_HOST_MAX + 1]; /* "" before the first READY */
};

RB_HEAD(node_tree, node);
RB_HEAD(probe_tree, node);
RB_HEAD(answering_tree, node);

/* What all members together have told of an epoch: each the most that one of them has. */
struct told {
    bool has_step;
    uint64_t step;
    bool has_saved;
    uint64_t saved_step;
    uint32_t saves;
    uint64_t answers;
    uint32_t n_listen;         /* members whose scripts can be asked to save */
    struct tfe_mono first;     /* a step or a checkpoint was told; NEVER */
    struct tfe_mono last;      /* … for the last time */
    struct tfe_mono last_save; /* a checkpoint was; NEVER */
};

/* One agreed cluster. Arrays have the job's capacity. */
struct epoch {
    uint64_t number; /* 0: none yet */
    uint32_t n_seats;
    struct node **seats;  /* by index; a node's trainers have the ranks seat * nproc … */
    struct msg_row *rows; /* the present table's in the job's tables */
    char (*hosts)[TFE_HOST_MAX + 1]; /* likewise */
    uint64_t digest;
    enum tfe_cause cause;
    struct tfe_mono started;
    uint32_t n_accounted;
    uint32_t n_listening; /* members that said so */
    struct told told;
    bool adopted; /* from before this server: what members tell first is no news */
    bool opened;  /* durable, and somebody has been told START */
    /* The others are told once rank 0 listens, or by then; NEVER: everybody has been told. */
    struct tfe_mono leader_until;
};

/* Why trainers came to their end (cause.c). */
enum end {
    END_FINISHED,
    END_STOPPED,     /* by us: the agent did it itself, for it lost its guard, say */
    END_COORDINATOR, /* … because the server was not there for longer than the fence */
    END_LOST_NODE,
    END_PREEMPTED,
    END_PEER_CAUSED,
    END_OWN_FAULT,
    END_OUT_OF_MEMORY,
    END_START_TIMEOUT,
    END_PROGRESS_TIMEOUT,
    END__COUNT
};

/* What follows from it. */
struct cause {
    const char *name;
    bool charged;    /* to the job-global budget, with back-off */
    bool breaks_row; /* of epochs that came to nothing */
    enum tfe_cause next;
    const char
        *words; /* behind how it ended, in the sentence of a failed job; NULL: that says it */
};
extern const struct cause causes[END__COUNT];

/* What is known of the last end of an epoch by its trainers' exits. */
struct fault {
    uint64_t epoch;             /* the epoch it is about */
    bool is_settled;            /* the exit that explains it is known */
    bool is_open;               /* charged, and may still be taken back */
    struct tfe_mono verdict_at; /* not any more from then on */
    struct tfe_mono not_before; /* the next epoch starts no sooner */
    uint32_t backoff_ms;
    uint32_t fruitless_was; /* before this epoch's end */
    struct tfe_mono not_before_was;
    uint32_t fruitless; /* epochs in a row that ended so without progress */
    uint32_t widest; /* the most members of an epoch since the last progress; 0: none has begun */
    char sentence[MSG_SENTENCE_MAX]; /* how the job fails if this was too much */
};

/* Switches that nobody needs at this very moment: growth, and leaving before a machine goes
 * (plan.c). */
struct plan {
    /* Of the run. */
    bool knows_saves; /* a checkpoint was seen */
    bool knows_steps; /* a step was told */
    bool has_saved;   /* where the next epoch goes on, for all that is known: */
    uint64_t saved_step;
    uint64_t number;    /* of the last SAVE; or a higher one that a script has heard of */
    uint32_t switch_ms; /* the last standstill that was measured; 0: none was */
    uint32_t save_ms;   /* from the last SAVE to its answer */
    struct tfe_mono
        share_since;          /* of growth's share of time: the run's START, or the last growth */
    struct tfe_mono grown_at; /* STOP for the last growth; NEVER */
    uint32_t grown_ms;        /* its standstill; 0: not measured */
    uint32_t grown_least_ms;  /* … of which its START is known */
    struct tfe_mono stood_since; /* STOP of the switch whose standstill is being measured; NEVER */
    bool stood_to_grow;
    /* Of this epoch. */
    struct tfe_mono newcomer_at; /* somebody who could come in is READY since; NEVER */
    uint32_t n_leaving;          /* members */
    struct tfe_mono noticed_at;  /* the first of them; NEVER */
    struct tfe_mono leave_by;    /* the first deadline of theirs; NEVER */
    struct tfe_mono leave_until; /* when those without a deadline leave at the latest; NEVER */
    enum tfe_cause leave_cause;
    uint32_t leaver;     /* seat of one of them */
    uint32_t n_hinted;   /* members that may have to go some time */
    bool is_waiting;     /* for a checkpoint: */
    uint64_t asked;      /* an answer to this SAVE or a later one, */
    bool is_heard;       /* or (who listened when asked: the second, else the first) */
    uint32_t saves_then; /* above so many */
    struct tfe_mono asked_at;
    struct tfe_mono asked_until; /* NEVER: not said */
};

struct job {
    RB_ENTRY(job) by_name;
    struct job *next_dead;
    struct tfe_id name;
    /* As the JOIN that opened it said. */
    uint32_t min_nodes, max_nodes, nproc;
    uint32_t max_restarts, gather_ms, grow_wait_ms, stop_grace_ms, elastic_timeout_ms;
    uint32_t chief_grace_ms;
    bool no_grow;
    uint64_t script_digest;
    struct tfe_id run_key; /* "": nobody has named the run */

    enum job_state state;
    uint32_t run;
    uint32_t restarts; /* of the budget, used */
    struct core_timer timer;
    struct epoch epoch;
    struct tables tables;
    uint32_t granted_ttl_ms; /* the largest so far */
    uint32_t durable_ttl_ms; /* … that a restarted server would know of */
    uint64_t durable_epoch;  /* the last one that was PERSISTED, or is being so */
    struct write write;
    struct fault fault;
    struct rebuild rebuild;
    struct node *nobody; /* in the seats of members that nothing was heard of; in no tree */
    struct plan plan;
    struct ledger ledger;
    uint64_t highest_epoch;    /* seen anywhere; the next one is above it */
    enum tfe_cause next_cause; /* 0: the running epoch may go on */
    bool has_cause;
    bool is_planned; /* … and nobody has failed: trainers that listen have the stop grace */
    bool rank0_finished;
    bool has_progressed; /* an earlier epoch of this run has */
    bool is_first_epoch; /* of this run: the gather window is for it */

    struct node_tree nodes;
    uint32_t n_nodes;                /* in the tree */
    uint32_t n_connected;            /* with a session */
    uint32_t n_ready;                /* READY for the next epoch */
    struct answering_tree answering; /* whose READY said that they still answer */
    struct probe_tree probes;        /* of nodes, by the id of the probe that is under way */

    struct tfe_mono waiting_since; /* WAITING */
    struct tfe_mono last_join;
    struct tfe_mono ready_since;   /* GATHERING: min were ready */
    struct tfe_mono switch_began;  /* PREPARING */
    struct tfe_mono stop_began;    /* COMMITTING: an operator has stopped it */
    struct tfe_mono fenced_until;  /* trainers of which nothing is known may run until then */
    struct tfe_mono exit_deadline; /* RUNNING: somebody ended well; NEVER before */
    bool fence_traced;
    uint32_t
        awaited_seat;    /* PREPARING, RUNNING to its end: whom it waited for when it looked last */
    uint64_t mass_epoch; /* in which a mass loss was held once */
    struct tfe_mono mass_until; /* no member's lease ends before */
    /* Until when stale peers may still speak to the ports of the odd and the even set. */
    struct tfe_mono ports_spoken_until[2];

    size_t cap_nodes;
    size_t cap_rows;
    size_t cap_seats;
    struct node **chosen;            /* scratch of the choice of members */
    char sentence[MSG_SENTENCE_MAX]; /* how it ended */
    struct tfe_wall ended;           /* … and when; 0: not known */
    struct past past[PAST_MAX];      /* the oldest first */
    uint32_t n_past;
};

RB_HEAD(job_tree, job);

struct rdzv {
    struct rdzv_config config;
    const struct tfe_mem *mem;
    struct tfe_mono now;
    struct tfe_wall wall; /* 0: not known */
    struct wheel wheel;
    struct job_tree jobs;
    uint32_t n_jobs;
    uint64_t steps; /* counts up, from 1 */
    uint64_t joins; /* counts up: join_order */
    struct tfe_mono last_join;
    uint32_t n_leases;
    uint64_t visits; /* counts up: visit */
    uint64_t probes; /* counts up, from a random number on: no answer to an earlier server fits */
    struct node **by_session;
    struct rdzv_action *actions;
    size_t n_actions;
    size_t cap_actions;
    struct tfe_mono deadline;
    struct tfe_mono late_at; /* a turn of the loop was late: no lease ends for another ttl */
    struct node *dead_nodes;
    struct job *dead_jobs;
    struct evicted evicted[CORE_EVICTED_MAX]; /* a ring */
    uint64_t evictions;                       /* so many ever */
    char sentence[MSG_SENTENCE_MAX];          /* of a refusal or trace of this step */
    char tail[MSG_TAIL_MAX + 1];              /* of the EXITED of this step */
};

/* Whether this point in time has come. Never for NEVER. */
static inline bool is_past(const struct rdzv *r, struct tfe_mono when)
{
    return !tfe_mono_before(r->now, when);
}

int node_compare(const struct node *a, const struct node *b);
int job_compare(const struct job *a, const struct job *b);
RB_PROTOTYPE(node_tree, node, by_id, node_compare)
RB_PROTOTYPE(answering_tree, node, by_answering, node_compare)
RB_PROTOTYPE(job_tree, job, by_name, job_compare)
int probe_compare(const struct node *a, const struct node *b);
RB_PROTOTYPE(probe_tree, node, probe.by_id, probe_compare)

/* --- actions.c: room is reserved before anything changes, so that pushing cannot fail --------- */

/* Room for everything one event can cause in the job (NULL: in none). TFE_ENOMEM. */
int actions_reserve(struct rdzv *r, const struct job *job) TFE_MUST_CHECK;
/* The next SEND, zeroed but for session and type of message. */
struct tfe_msg *send_to(struct rdzv *r, uint32_t session, enum tfe_msg_type type);
void send_close(struct rdzv *r, uint32_t session);
void send_persist(struct rdzv *r, const struct rdzv_record *record);
void send_ledger(struct rdzv *r, const struct rdzv_ledger *ledger);
/* The process has to end; sentence is static. */
void send_exit(struct rdzv *r, const char *sentence);
void send_refused(struct rdzv *r, uint32_t session, enum tfe_refusal code, const char *sentence);
/* Returns it for what is seldom said; until the next action. */
struct rdzv_trace *send_trace(struct rdzv *r, enum rdzv_trace_kind kind, const struct job *job,
                              const struct node *node, uint64_t number, const char *text);

/* --- lease.c ---------------------------------------------------------------------------------- */

struct lease_terms {
    uint32_t ttl_ms;
    uint32_t fence_ms;
};
/* What the node is granted if it asks now. */
struct lease_terms lease_terms(const struct rdzv *r, const struct node *node);
/* Gives or prolongs: the lease ends ttl from now on a clock that may run 5 % fast, its fence
 * likewise. Returns what the node is to be told. */
struct lease_terms lease_renew(struct rdzv *r, struct node *node);
void lease_end(struct rdzv *r, struct node *node);
/* When a lease granted at that time is over at the latest. */
struct tfe_mono lease_end_from(const struct rdzv *r, const struct job *job,
                               struct tfe_mono granted);
/* How long a lease should be for the server to bear the renewals. */
uint32_t lease_wanted_ms(const struct rdzv *r);
/* What a node of the job is granted: that, but no more than what a restarted server would know of.
 */
uint32_t lease_ttl_ms(const struct rdzv *r, const struct job *job);
/* When a fence of this length that was told at that time has passed. */
struct tfe_mono lease_fence_end_from(struct tfe_mono told, uint32_t fence_ms);
/* The fence that START tells the node, for its new standing. */
uint32_t lease_fence_of_start(struct rdzv *r, struct node *node);
/* For a member of an adopted epoch: what it may have been granted by the server before. */
void lease_restore(struct rdzv *r, struct node *node, uint32_t ttl_ms, uint32_t fence_ms);
/* The fence of an epoch of n members (0: of a node that is in none, which runs nothing and so does
 * not need the long one); the setting, or DESIGN 6's rule. */
uint32_t lease_fence_ms(const struct rdzv *r, uint32_t n_members, uint32_t ttl_ms);
/* What the node is told, for its present standing. */
uint32_t lease_node_fence_ms(const struct rdzv *r, const struct node *node);

/* --- node.c ----------------------------------------------------------------------------------- */

/* One block with everything the node will ever need. NULL: out of memory. */
struct node *node_new(struct rdzv *r, const struct msg_join *join);
struct node *node_find(struct job *job, const char *id);
void node_attach(struct rdzv *r, struct node *node, uint32_t session);
/* Its session is no longer its own; what it was ready for is void. */
void node_detach(struct rdzv *r, struct node *node);
/* Within what time it is to come back when its connection breaks, with a ttl of that length (DESIGN
 * 6). */
uint32_t node_spread_ms(const struct node *node, uint32_t ttl_ms);
void node_set_ready(struct node *node, uint64_t epoch);
bool node_is_ready(const struct node *node);
/* What its last READY said. */
void node_set_answering(struct node *node, bool answering);
/* Nothing of its trainers of the current epoch runs any more. */
void node_account(struct node *node);
/* The place is free: no lease, no session. A member stays in the tree as gone until the next epoch.
 */
void node_remove(struct rdzv *r, struct node *node);
enum tfe_node_role node_role(const struct node *node);
/* Asks it to get ready for the next epoch, and to answer on its ports where others should try them.
 */
void node_prepare(struct rdzv *r, struct node *node);
/* The message alone. */
void node_send_prepare(struct rdzv *r, struct node *node, bool answer);

/* --- job.c, states.c, epoch.c ----------------------------------------------------------------- */

struct job *job_find(struct rdzv *r, const char *name);
/* NULL: out of memory. */
struct job *job_new(struct rdzv *r, const struct msg_join *join);
/* Room for a job of so many nodes with these sizes, so that a switch needs no memory. TFE_ENOMEM.
 */
int job_reserve(struct rdzv *r, struct job *job, size_t nodes, uint32_t max_nodes,
                uint32_t nproc) TFE_MUST_CHECK;
/* The next run of a job that is over, as this JOIN wants it; epochs are numbered on. */
void job_begin_run(struct rdzv *r, struct job *job, const struct msg_join *join);
/* Frees a job that is in no tree, with the nodes that it still has. */
void job_free(struct rdzv *r, struct job *job);
/* Forgets a job that never had an epoch and has no node left. */
void job_drop_if_unused(struct rdzv *r, struct job *job);
bool job_is_over(const struct job *job);
enum tfe_result job_result(const struct job *job);
enum tfe_result job_result_of(enum job_state state);
uint64_t job_next_epoch(const struct job *job);
/* The running epoch has to end, and why; the first reason stays. */
void job_want_switch(struct job *job, enum tfe_cause cause);
/* Likewise, with nothing broken: its trainers may come to their end in an orderly way. */
void job_plan_switch(struct job *job, enum tfe_cause cause);
/* Rank 0 has ended well, and so the job has. */
void job_succeed(struct rdzv *r, struct job *job);
/* Whether the node has a part in an epoch that runs or is about to: what it was READY for has come.
 */
bool job_engages(const struct job *job, const struct node *node);
/* Tells one node, and lets it go. */
void job_tell_finish(struct rdzv *r, struct job *job, uint32_t session);

/* Chooses members and ranks from the ready nodes and makes the table. Precondition: at least min
 * nodes are ready. */
void epoch_form(struct rdzv *r, struct job *job);
/* The epoch is durable: its table to everybody, START to rank 0, which must listen before the
 * others connect or all of them lose a second in TensorFlow's back-off. */
void epoch_open(struct rdzv *r, struct job *job);
/* Who is connected and no member, for the epoch after this one. */
void epoch_prepare_spares(struct rdzv *r, struct job *job);
/* START to all who have not had it. */
void epoch_tell_rest(struct rdzv *r, struct job *job);
/* What a member that came back has missed. */
void epoch_tell_again(struct rdzv *r, struct job *job, struct node *node);
/* By when the fences of all members have passed that nothing is known of. */
struct tfe_mono epoch_fence_end(const struct job *job);
/* Likewise, of rank 0 alone. */
struct tfe_mono epoch_chief_fence_end(const struct job *job);
/* Nobody of it has come to an end, or is missing for good. */
bool epoch_is_whole(const struct job *job);

/* --- fault.c ------------------------------------------------------------------------------------
 */

/* A trainer of the running epoch, or of the one that is being left, ended badly. */
void fault_take(struct rdzv *r, struct node *node, const struct msg_exited *exited, enum end end);
/* Whether what ended the current epoch is known: no other exit of it counts. */
bool fault_is_settled(const struct job *job);
/* The epoch is about to be stopped: who was in one that got further is no bad newcomer. */
void fault_note_progress(struct rdzv *r, struct job *job);
/* A node's quarantine is over. */
void on_hold_over(struct rdzv *r, struct node *node);
/* Of its own accord, with exit status 0. */
bool exited_well(const struct msg_exited *exited);
/* Why a trainer ended that did not end well, from what is known of it. was_away: the node had lost
 * the server. */
enum end cause_of(const struct rdzv *r, const struct node *node, const struct msg_exited *exited,
                  bool was_away);
/* Likewise, of a rank 0 that does not end: nobody's fault while a member, itself for one, is out of
 * sight. */
enum end cause_of_hang(const struct rdzv *r, const struct job *job);
/* Another rank ended well, and rank 0 does not. */
void fault_take_hang(struct rdzv *r, struct job *job);
/* A member of the epoch was lost or has left: what its peers' trainers did followed from that. */
void fault_excuse(struct rdzv *r, struct job *job);
/* Whether the job has failed by what is known. If not, *ret_wait is when the next epoch may start
 * (in the past: now). */
bool fault_is_final(const struct rdzv *r, const struct job *job, struct tfe_mono *ret_wait);
/* Whether the running epoch has made progress: something was told, or, where nobody ever tells, it
 * has run for a while. */
bool fault_has_progressed(const struct rdzv *r, const struct job *job);
/* When the running epoch has made progress, so that those before it that came to nothing count no
 * more; NEVER if there were none, or nothing was told of it yet. */
struct tfe_mono fault_row_ends_at(const struct job *job);
void fault_end_row(struct job *job);
/* The members of a new epoch are known: a node that has joined ends the row, too. More members than
 * any epoch had since the last progress: one that leaves and returns does not count again. */
void fault_take_in(struct job *job);
/* When the running epoch will have earned the budget back; NEVER if nothing of it is used. */
struct tfe_mono fault_refill_at(const struct job *job);
void fault_refill(struct rdzv *r, struct job *job);

/* --- plan.c
 * --------------------------------------------------------------------------------------- */

/* A new run: nothing is known of it. */
void plan_begin_run(struct job *job);
/* The epoch is opened or adopted. */
void plan_begin_epoch(struct rdzv *r, struct job *job);
/* Its first notice has come. O(1): the machines of ten thousand nodes may be called back together.
 */
void plan_count(struct job *job, const struct node *node);
/* A notice has changed or gone, or members have. O(members). */
void plan_recount(struct job *job);
/* Plans a switch where it is time for one, asks for a checkpoint before; returns when to look
 * again. */
struct tfe_mono plan_settle(struct rdzv *r, struct job *job);
/* The epoch is about to be stopped: the standstill begins. */
void plan_stop(struct rdzv *r, struct job *job);
/* It has ended, as far as can be seen. */
void plan_measure(struct rdzv *r, struct job *job);
/* What is known of a standstill says nothing any more. */
void plan_forget_standstill(struct job *job);
/* A member's scripts may have to be asked: a SAVE is under way that it was not told. */
void plan_ask_late(struct rdzv *r, struct job *job, struct node *node);
/* A node tells of an answer to a SAVE that this server has not sent, or has told so before it came:
 * what it asks has higher numbers. */
void plan_outnumber(struct rdzv *r, struct job *job, uint64_t answers);

#endif
