/* server/core/traces.h: everything that can happen to a job, as the core reports it. The log, the
 * events for operators and the simulator's expected output follow from this table. */
#ifndef TFE_SERVER_CORE_TRACES_H
#define TFE_SERVER_CORE_TRACES_H

#include <stdbool.h>
#include <stdint.h>

/* Columns: name in the log and of the event, level, log keys of the number and of the text (NULL if
 * not logged), and the event's sentence (NULL if there is no event, or if event_text.c composes
 * it). In a sentence, %N is the node, %T the text, %V the verdict that the text names, %n the
 * number, %m that number of nodes, %d the number as a duration, %E the epoch, and %w the remaining
 * workers. */
#define RDZV_TRACES(X)                                                                             \
    X(JOB_STATE, "job_state", DEBUG, NULL, "state", NULL) /* number: run that begins */            \
    X(NODE_JOINED, "node_joined", INFO, NULL, "name", "%N has joined")                             \
    X(NODE_BACK, "node_back", INFO, NULL, NULL, "%N is connected again") /* new connection */      \
    X(NODE_READY, "node_ready", DEBUG, NULL, "host",                                               \
      "%N is ready, its trainers are reachable at %T")                                             \
    X(NODE_UNVERIFIED, "node_unverified", DEBUG, NULL, "host", NULL) /* no peer can probe it */    \
    X(NODE_VERIFIED, "node_verified", DEBUG, NULL, "by", NULL)       /* text: id of the prober */  \
    X(NODE_UNREACHED, "node_unreached", WARN, "for_ms", "tried",                                   \
      "%N has not been reached at %T yet") /* ms since the first try */                            \
    X(NODE_DEAD, "node_dead", WARN, NULL, "by",                                                    \
      "all processes of %N have ended, as proven by %T") /* text: who proved it */                 \
    X(NODE_SUSPECT, "node_suspect", WARN, NULL, NULL,                                              \
      "%N disconnected without GOODBYE: it is lost when its lease expires")                        \
    X(NODE_LOST, "node_lost", WARN, NULL, "reason",                                                \
      "%N is lost: %T")                                        /* lease over, or left out */       \
    X(NODE_LEFT, "node_left", INFO, NULL, NULL, "%N has left") /* GOODBYE, or drained */           \
    X(NODE_EXITED, "node_exited", INFO, "code", "tail", NULL)  /* or 128 + signal */               \
    X(WORKER_RESTART, "worker_restart", INFO, "number", NULL,                                      \
      "the trainer of %N restarts, restart %n in epoch %E, which continues")                       \
    X(WORKER_MISSING, "worker_missing", WARN, "workers", "reason",                                 \
      "epoch %E continues without the worker on %N (%T)%w") /* number: remaining workers */        \
    X(WORKER_DONE, "worker_done", INFO, "workers", NULL,                                           \
      "the worker on %N has ended with exit status 0%w")                                           \
    X(EVALUATOR, "evaluator", INFO, "number", "state",                                             \
      "the evaluator on %N %T") /* number of the restart */                                        \
    X(NODE_QUARANTINED, "node_quarantined", WARN, "ms", "verdict",                                 \
      "%N is quarantined for %d: its trainers fail while those of other nodes do not (%T)")        \
    X(NODE_REFUSED, "node_refused", WARN, NULL, "reason", "%N was refused: %T")                    \
    X(LISTENING, "node_listening", DEBUG, "ms", NULL, NULL) /* ms since START; 0 if unknown */     \
    X(SWITCH, "switch", INFO, NULL, "cause", "epoch %E ends (%T)") /* cause of the next epoch */   \
    X(EPOCH, "epoch", INFO, "members", "cause", "epoch %E begins with %m (%T)")                    \
    X(REBUILT, "rebuilt", WARN, "members", NULL, "epoch %E was rebuilt from the reports of %m")    \
    X(WAIT_FENCE, "wait_fence", WARN, "ms", NULL,                                                  \
      "the next epoch waits up to %d for the fence of a lost node's trainers")                     \
    X(MASS_LOSS, "mass_loss", ERROR, "held_ms", "reason",                                          \
      "leases are held for %d: %T") /* time the leases are held */                                 \
    X(VERDICT, "verdict", INFO, "failed_epochs", "verdict",                                        \
      "verdict: the trainer of %N %V")                    /* number: consecutive epochs */         \
    X(RESTARTS, "restarts", INFO, "used", "reason", NULL) /* text: why it decreased */             \
    X(WRITE_FAILED, "write_failed", ERROR, "again_in_ms", NULL,                                    \
      "cannot write the record of the next epoch; next try in %d")                                 \
    X(LINGERS, "lingers", INFO, NULL, NULL,                                                        \
      "the job has succeeded; the remaining trainers run until they end")                          \
    X(JOB_FINISHED, "job_finished", INFO, NULL, "reason", NULL)                                    \
    X(NODE_DRAINING, "node_draining", INFO, NULL, "name", NULL)        /* operator's command */    \
    X(NODE_EVICTED, "node_evicted", WARN, NULL, "name", NULL)          /* operator's command */    \
    X(JOB_STOPPING, "job_stopping", INFO, NULL, NULL, NULL)            /* operator's command */    \
    X(JOB_RESIZED, "job_resized", INFO, "max", NULL, NULL)             /* operator's command */    \
    X(NODE_NOTICED, "node_noticed", WARN, "deadline_ms", "kind", NULL) /* 0: no deadline */        \
    X(NODE_ALONE, "node_alone", WARN, "rank", NULL,                                                \
      "%N, rank %n, does not use the cluster that TF_CONFIG gives it: it neither listens at its "  \
      "address nor is connected to rank 0, and trains alone")                                      \
    X(NODE_STAYS, "node_stays", INFO, NULL, "name",                                                \
      "the termination notice of %N was withdrawn") /* its notice was withdrawn */                 \
    X(SAVE, "save", INFO, "number", NULL, "a checkpoint is requested from the scripts")            \
    X(GROWTH_WAITS, "growth_waits", INFO, NULL, "reason", "growth %T") /* no checkpoint seen */    \
    X(SAVED, "saved", INFO, "after_ms", NULL,                                                      \
      "the scripts have saved a checkpoint, %d after the request")

enum rdzv_trace_kind {
#define RDZV_TRACE_ENUM(NAME, name, level, number, text, sentence) TRACE_##NAME,
    RDZV_TRACES(RDZV_TRACE_ENUM)
#undef RDZV_TRACE_ENUM
};

/* Returns the name, such as "job_state": a static string, never NULL. */
const char *rdzv_trace_name(enum rdzv_trace_kind kind);

struct rdzv_trace {
    enum rdzv_trace_kind kind;
    const char *job;  /* name of the job, or NULL */
    const char *node; /* id of the node, or NULL */
    const char *name; /* label of the node, or NULL */
    uint64_t epoch;
    uint64_t number;
    const char *text; /* text to log, or NULL */
    /* NODE_NOTICED: the machine may stay after all, or may go before the deadline */
    bool uncertain;
    bool stopped;   /* NODE_EXITED: the agent itself ended the trainers, on request */
    bool is_signal; /* NODE_EXITED: a signal ended the trainer; number is 128 + signal */
};

#endif
