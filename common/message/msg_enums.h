/* common/message/msg_enums.h: the message types of the protocol and the enumerated values of their
 * fields. Pure. */
#ifndef TFE_COMMON_MESSAGE_MSG_ENUMS_H
#define TFE_COMMON_MESSAGE_MSG_ENUMS_H

#include <stdbool.h>

#include "common/message/range.h"

/* Type byte of each message, its name, and its permitted sender: A an agent, S the server (to an
 * agent or tfe-ctl), Q tfe-ctl with a query (observer or admin), O tfe-ctl with an operator's order
 * (admin). Numbers are never reused. */
#define TFE_MSGS(X)                                                                                \
    X(JOIN, join, 1, A)                                                                            \
    X(RENEW, renew, 2, A)                                                                          \
    X(READY, ready, 3, A)                                                                          \
    X(LISTENING, listening, 4, A)                                                                  \
    X(EXITED, exited, 5, A)                                                                        \
    X(GOODBYE, goodbye, 6, A)                                                                      \
    X(PROCESSES, processes, 7, A)                                                                  \
    X(PROGRESS, progress, 8, A)                                                                    \
    X(NOTICE, notice, 9, A)                                                                        \
    X(PROBED, probed, 10, A)                                                                       \
    X(ENROL, enrol, 11, A)                                                                         \
    X(DEATH, death, 12, A)                                                                         \
    X(LOG_CHUNK, log_chunk, 19, A)                                                                 \
    X(LOG_DONE, log_done, 20, A)                                                                   \
    X(MACHINE_INFO, machine_info, 16, A)                                                           \
    X(MACHINE_STATS, machine_stats, 17, A)                                                         \
    X(METRICS, metrics, 18, A)                                                                     \
    X(POOL, pool, 21, A)                                                                           \
    X(FREED, freed, 22, A)                                                                         \
    X(FETCH, fetch, 23, A)                                                                         \
    X(ARTIFACT, artifact, 24, A)                                                                   \
    X(WELCOME, welcome, 32, S)                                                                     \
    X(RENEWED, renewed, 33, S)                                                                     \
    X(PREPARE, prepare, 34, S)                                                                     \
    X(STOP, stop, 35, S)                                                                           \
    X(TABLE, table, 36, S)                                                                         \
    X(START, start, 37, S)                                                                         \
    X(NOTED, noted, 38, S)                                                                         \
    X(LEASE_ENDED, lease_ended, 39, S)                                                             \
    X(PROBE, probe, 40, S)                                                                         \
    X(FINISH, finish, 41, S)                                                                       \
    X(REFUSED, refused, 42, S)                                                                     \
    X(SAVE, save, 43, S)                                                                           \
    X(ENROLLED, enrolled, 44, S)                                                                   \
    X(LOG_REQUEST, log_request, 48, S)                                                             \
    X(LOG_CREDIT, log_credit, 49, S)                                                               \
    X(LOG_STOP, log_stop, 50, S)                                                                   \
    X(RESTART, restart, 45, S)                                                                     \
    X(ASSIGN, assign, 52, S)                                                                       \
    X(RELEASE, release, 53, S)                                                                     \
    X(CHUNK, chunk, 54, S)                                                                         \
    X(STATUS, status, 64, Q)                                                                       \
    X(STATUS_JOB, status_job, 65, S)                                                               \
    X(STATUS_NODE, status_node, 66, S)                                                             \
    X(STATUS_END, status_end, 67, S)                                                               \
    X(HEALTH, health, 79, S)                                                                       \
    X(DRAIN, drain, 68, O)                                                                         \
    X(EVICT, evict, 69, O)                                                                         \
    X(DONE, done, 71, S)                                                                           \
    X(EPOCHS, epochs, 72, Q)                                                                       \
    X(EPOCH_ROW, epoch_row, 73, S)                                                                 \
    X(BACKUP, backup, 74, O)                                                                       \
    X(FORGET, forget, 75, O)                                                                       \
    X(GROW, grow, 78, O)                                                                           \
    X(TOKEN_CREATE, token_create, 80, O)                                                           \
    X(TOKEN, token, 81, S)                                                                         \
    X(TOKENS, tokens, 82, O)                                                                       \
    X(TOKEN_ROW, token_row, 83, S)                                                                 \
    X(TOKEN_REVOKE, token_revoke, 84, O)                                                           \
    X(TOKEN_ROTATE, token_rotate, 85, O)                                                           \
    X(UNBAN, unban, 86, O)                                                                         \
    X(BANS, bans, 87, O)                                                                           \
    X(BAN_ROW, ban_row, 88, S)                                                                     \
    X(AUDIT, audit, 89, O)                                                                         \
    X(AUDIT_ROW, audit_row, 90, S)                                                                 \
    X(AGENTS, agents, 91, O)                                                                       \
    X(AGENT_ROW, agent_row, 92, S)                                                                 \
    X(REVOKE_AGENT, revoke_agent, 93, O)                                                           \
    X(LOGS, logs, 100, Q)                                                                          \
    X(LOG_LINES, log_lines, 101, S)                                                                \
    X(GAUGES, gauges, 106, Q)                                                                      \
    X(GAUGE, gauge, 107, S)                                                                        \
    X(DEMAND, demand, 108, Q)                                                                      \
    X(DEMAND_ROW, demand_row, 109, S)                                                              \
    X(EVENTS, events, 94, Q)                                                                       \
    X(EVENT_ROW, event_row, 95, S)                                                                 \
    X(SERIES, series, 96, Q)                                                                       \
    X(SERIES_ROW, series_row, 97, S)                                                               \
    X(SUBMIT, submit, 110, O)                                                                      \
    X(CONDITION_ROW, condition_row, 114, S)                                                        \
    X(POOL_NODES, pool_nodes, 115, Q)                                                              \
    X(POOL_ROW, pool_row, 116, S)                                                                  \
    X(SCALE, scale, 117, O)                                                                        \
    X(SUSPEND, suspend, 118, O)                                                                    \
    X(RESUME, resume, 119, O)                                                                      \
    X(CANCEL, cancel, 120, O)                                                                      \
    X(RERUN, rerun, 121, O)                                                                        \
    X(BUNDLE_PUT, bundle_put, 122, O)                                                              \
    X(BUNDLE_HAVE, bundle_have, 123, O)                                                            \
    X(BUNDLE_WANT, bundle_want, 124, S)

enum tfe_msg_type {
#define TFE_MSG_ENUM(NAME, name, number, sender) MSG_##NAME = (number),
    TFE_MSGS(TFE_MSG_ENUM)
#undef TFE_MSG_ENUM
};

/* Why the server refuses a request. Numbers are stable; logs and PROTOCOL.md use the name. */
#define TFE_REFUSALS(X)                                                                            \
    X(REFUSAL_NOT_AUTHORISED, 1, "not_authorised")                                                 \
    X(REFUSAL_BAD_REQUEST, 2, "bad_request")                                                       \
    X(REFUSAL_SIZE_MISMATCH, 3, "size_mismatch")                                                   \
    X(REFUSAL_JOB_FINISHED, 4, "job_finished")                                                     \
    X(REFUSAL_LIMIT_REACHED, 5, "limit_reached")                                                   \
    X(REFUSAL_NO_SUCH_JOB, 6, "no_such_job")                                                       \
    X(REFUSAL_NODE_REPLACED, 7, "node_replaced")                                                   \
    X(REFUSAL_NO_SUCH_NODE, 8, "no_such_node")                                                     \
    X(REFUSAL_EVICTED, 9, "evicted")                                                               \
    X(REFUSAL_ADDRESS_UNREACHABLE, 10, "address_unreachable")                                      \
    X(REFUSAL_STORE, 11, "store")                                                                  \
    X(REFUSAL_NO_SUCH_KEY, 14, "no_such_key")                                                      \
    X(REFUSAL_VERSION_MISMATCH, 15, "version_mismatch")                                            \
    X(REFUSAL_CONFLICT, 16, "conflict")                                                            \
    X(REFUSAL_COMMIT_MISMATCH, 17, "commit_mismatch")

enum tfe_refusal { TFE_REFUSALS(TFE_ENUMERATOR) };

/* Why an epoch began. Tables and JSON show the name. */
#define TFE_CAUSES(X)                                                                              \
    X(CAUSE_START, 1, "start")                                                                     \
    X(CAUSE_NODE_LOST, 2, "node_lost")                                                             \
    X(CAUSE_TRAINER_FAILED, 3, "trainer_failed")                                                   \
    X(CAUSE_JOINED, 4, "joined")                                                                   \
    X(CAUSE_DRAINED, 5, "drained")                                                                 \
    X(CAUSE_PREEMPTED, 6, "preempted")                                                             \
    X(CAUSE_RESIZED, 7, "resized")                                                                 \
    X(CAUSE_SERVER_LOST, 8, "server_lost")                                                         \
    X(CAUSE_INTERRUPTED, 9, "interrupted")                                                         \
    X(CAUSE_SUSPENDED, 10, "suspended")                                                            \
    X(CAUSE_REASSIGNED, 11, "reassigned")

enum tfe_cause { TFE_CAUSES(TFE_ENUMERATOR) };

/* Timestamps of an epoch in chronological order. DETECTED: the reason for the epoch was detected.
 * STOPPED: STOP was sent for the epoch before. GATHERED: its members were READY. COMMITTED: it was
 * durable. STARTED: its first START was sent. LISTENING: all members reported LISTENING.
 * PROGRESSED: the first step was reported. ENDED: its own STOP was sent, or the job ended. */
#define TFE_EPOCH_TIMES(X)                                                                         \
    X(DETECTED, detected)                                                                          \
    X(STOPPED, stopped)                                                                            \
    X(GATHERED, gathered)                                                                          \
    X(COMMITTED, committed)                                                                        \
    X(STARTED, started)                                                                            \
    X(LISTENING, listening)                                                                        \
    X(PROGRESSED, progressed)                                                                      \
    X(ENDED, ended)

enum tfe_epoch_time {
#define TFE_EPOCH_TIME_ENUM(NAME, name) EPOCH_##NAME,
    TFE_EPOCH_TIMES(TFE_EPOCH_TIME_ENUM)
#undef TFE_EPOCH_TIME_ENUM
        EPOCH__TIMES
};

/* Result of a run for one node: the result of the job, or DRAINED if the node was drained while
 * the job was running. */
#define TFE_RESULTS(X)                                                                             \
    X(RESULT_SUCCEEDED, 1, "succeeded")                                                            \
    X(RESULT_FAILED, 2, "failed")                                                                  \
    X(RESULT_CANCELLED, 3, "cancelled")                                                            \
    X(RESULT_DRAINED, 4, "drained")

enum tfe_result { TFE_RESULTS(TFE_ENUMERATOR) };

/* The state of a job, shown in tables, JSON, pages, events and (capitalised) conditions.
 * docs/design.md, section 12.1, defines each state. */
#define TFE_JOB_STATES(X)                                                                          \
    X(STATE_WAITING, 1, "waiting")                                                                 \
    X(STATE_STARTING, 2, "starting")                                                               \
    X(STATE_RUNNING, 3, "running")                                                                 \
    X(STATE_RESTARTING, 4, "restarting")                                                           \
    X(STATE_SUSPENDED, 5, "suspended")                                                             \
    X(STATE_SUCCEEDED, 6, "succeeded")                                                             \
    X(STATE_FAILED, 7, "failed")                                                                   \
    X(STATE_CANCELLED, 8, "cancelled")                                                             \
    X(STATE_SET_ASIDE, 9, "set_aside")

enum tfe_job_state { TFE_JOB_STATES(TFE_ENUMERATOR) };

/* True if the state is final: only a new run leaves it. */
static inline bool msg_job_is_over(enum tfe_job_state state)
{
    return state == STATE_SUCCEEDED || state == STATE_FAILED || state == STATE_CANCELLED;
}

/* State of the standby interpreters of a node, all of them together. */
#define TFE_STANDBYS(X)                                                                            \
    X(WARMTH_NONE, 0, "none")           /* standbys are disabled, or all have become trainers */   \
    X(WARMTH_IMPORTING, 1, "importing") /* at least one standby imports */                         \
    X(WARMTH_WARM, 2, "warm")                                                                      \
    X(WARMTH_COLD, 3, "cold") /* standbys are enabled but failed: trainers start cold */

enum tfe_standby { TFE_STANDBYS(TFE_ENUMERATOR) };

/* Why a node leaves the pool. */
#define TFE_OUTS(X)                                                                                \
    X(OUT_NOT, 0, "stays")                                                                         \
    X(OUT_IDLE, 1, "idle")       /* the node had no job for its idle_exit_ms */                    \
    X(OUT_DRAINED, 2, "drained") /* an operator drained the node */                                \
    X(OUT_EVICTED, 3, "evicted") /* an operator evicted the node, which leaves at once */

enum tfe_out { TFE_OUTS(TFE_ENUMERATOR) };

/* Severity of an event. */
#define TFE_EVENT_LEVELS(X)                                                                        \
    X(EVENT_INFO, 0, "info")                                                                       \
    X(EVENT_WARN, 1, "warn")                                                                       \
    X(EVENT_ERROR, 2, "error")

enum tfe_event_level { TFE_EVENT_LEVELS(TFE_ENUMERATOR) };

/* State of a node within its job, as shown by `tfe-ctl status`. */
#define TFE_ROLES(X)                                                                               \
    X(ROLE_MEMBER, 1, "member")                                                                    \
    X(ROLE_SPARE, 2, "spare")                                                                      \
    X(ROLE_PREPARING, 3, "preparing") /* not READY for the next epoch */                           \
    X(ROLE_LEAVING, 4, "leaving")                                                                  \
    X(ROLE_WAITING, 5, "waiting")     /* READY, but no epoch runs */                               \
    X(ROLE_IMPORTING, 6, "importing") /* the standby imports before the node's first READY */      \
    X(ROLE_SUSPECT, 7, "suspect")     /* disconnected, but the lease has not expired */

enum tfe_node_role { TFE_ROLES(TFE_ENUMERATOR) };

/* Role of a trainer in TensorFlow's cluster, named as in TF_CONFIG. */
#define TFE_TASKS(X)                                                                               \
    X(TASK_WORKER, 0, "worker")                                                                    \
    X(TASK_CHIEF, 1, "chief")                                                                      \
    X(TASK_PS, 2, "ps")                                                                            \
    X(TASK_EVALUATOR, 3, "evaluator")

enum tfe_task { TFE_TASKS(TFE_ENUMERATOR) };

/* Source of a notice that a node is about to go away. REBALANCE is a hint that it may. */
#define TFE_NOTICES(X)                                                                             \
    X(NOTICE_REBALANCE, 1, "rebalance")                                                            \
    X(NOTICE_PREEMPT, 2, "preempt")                                                                \
    X(NOTICE_MAINTENANCE, 3, "maintenance")                                                        \
    X(NOTICE_SIGNAL, 4, "signal")                                                                  \
    X(NOTICE_OPERATOR, 5, "operator")

enum tfe_notice { TFE_NOTICES(TFE_ENUMERATOR) };

/* Purpose of a probe of another node's ports. */
#define TFE_PROBE_KINDS(X)                                                                         \
    X(PROBE_ADDRESS, 1, "address") /* check that the node itself answers at its address */         \
    X(PROBE_SUSPECT, 2, "suspect") /* check whether the node's trainers are dead */

enum tfe_probe_kind { TFE_PROBE_KINDS(TFE_ENUMERATOR) };

/* Result of a probe over all ports: the first in this list that a port gave, except that
 * ANSWERED_OURS requires every port to give it. */
#define TFE_PROBE_RESULTS(X)                                                                       \
    X(PROBE_ANSWERED_OURS, 1,                                                                      \
      "answered_ours") /* each port sent the node's own line (PROTOCOL.md 9) */                    \
    X(PROBE_ANSWERED_OTHER, 2,                                                                     \
      "answered_other")                /* a port sent another node's line, or other data */        \
    X(PROBE_ACCEPTED, 3, "accepted")   /* a port accepted the connection and sent no line */       \
    X(PROBE_NO_ANSWER, 4, "no_answer") /* a port timed out or was unreachable */                   \
    X(PROBE_REFUSED, 5, "refused")     /* a port reset the connection: no process listens */

enum tfe_probe_result { TFE_PROBE_RESULTS(TFE_ENUMERATOR) };

/* How a trainer ended, if the agent knows more than the exit status. */
#define TFE_ENDINGS(X)                                                                             \
    X(ENDING_EXITED, 0, "exited")               /* exited by itself or by a signal */              \
    X(ENDING_OUT_OF_MEMORY, 1, "out_of_memory") /* killed by the kernel for lack of memory */      \
    X(ENDING_START_TIMEOUT, 2, "start_timeout") /* killed by the agent: not started in time */     \
    X(ENDING_PROGRESS_TIMEOUT, 3,                                                                  \
      "progress_timeout")                     /* killed by the agent: no step for too long */      \
    X(ENDING_START_FAILED, 4, "start_failed") /* aborted before its cluster was complete */

enum tfe_ending { TFE_ENDINGS(TFE_ENUMERATOR) };

/* State of the copy of a job's artifacts. */
#define TFE_ARTIFACTS(X)                                                                           \
    X(ARTIFACT_STORING, 1, "storing")                                                              \
    X(ARTIFACT_STORED, 2, "stored")                                                                \
    X(ARTIFACT_FAILED, 3, "failed") /* no further attempt follows */

enum tfe_artifact { TFE_ARTIFACTS(TFE_ENUMERATOR) };

/* Output stream of a trainer. */
#define TFE_STREAMS(X)                                                                             \
    X(STREAM_STDOUT, 1, "stdout")                                                                  \
    X(STREAM_STDERR, 2, "stderr")

enum tfe_stream { TFE_STREAMS(TFE_ENUMERATOR) };

#endif
