/* common/message/job_spec.h: what a job wants: one struct, and one table of its fields. JOIN's
 * bytes, range checks, the record and its columns, and the options of both programs follow the
 * table, so that a new field is a line here, a field in tfe.proto and what the core makes of it.
 * Pure. */
#ifndef TFE_COMMON_MESSAGE_JOB_SPEC_H
#define TFE_COMMON_MESSAGE_JOB_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/range.h"

/* What follows where a trainer ends, by its role, each an enum tfe_restart_policy: two bits for
 * enum tfe_task 0, the lowest, and so on. */
#define JOB_RESTART_MAX 0xffu
/* … the same one for all roles. */
#define JOB_RESTART_ALL(policy) ((uint32_t)(policy)*0x55u)

/* How a field is kept, said and checked. */
enum job_spec_kind {
    JOB_SPEC_COUNT,    /* uint32_t */
    JOB_SPEC_DURATION, /* uint32_t, in ms */
    JOB_SPEC_FLAG,     /* bool */
    JOB_SPEC_DIGEST    /* uint64_t, any; 0: not known */
};

/* Who decides it. SAME: all agents of a job have to bring the same. WISH: the agent that opens the
 * job, and where that says nothing (MSG_UNSET) the server's setting. FIRST: the agent that opens
 * it. */
enum job_spec_who { JOB_SPEC_SAME, JOB_SPEC_WISH, JOB_SPEC_FIRST };

/* X(member, type, kind, who, least, most, setting of a server that was given none, JOIN's tag);
 * where it is an option, also: the setting as a text, the option, its argument and help. A WISH is
 * an option of both programs, the others of tfe-agent. */
#define JOB_SPEC_OPTIONS(X)                                                                        \
    X(nproc, uint32_t, COUNT, SAME, 1, MSG_NPROC_MAX, 1, 6, "1", "nproc-per-node", "N",            \
      "trainers on this node")                                                                     \
    X(max_restarts, uint32_t, COUNT, WISH, 0, 1000000, 3, 7, "3", "max-restarts", "N",             \
      "failures of its own that a job survives")                                                   \
    X(gather_ms, uint32_t, DURATION, WISH, 0, MSG_DURATION_MAX_MS, 3000, 8, "3s", "gather",        \
      "TIME", "first start: wait so long for a further node")                                      \
    X(grow_wait_ms, uint32_t, DURATION, WISH, 0, MSG_DURATION_MAX_MS, 60000, 9, "60s",             \
      "grow-wait", "TIME", "new nodes wait so long for a checkpoint, where checkpoints are known") \
    X(stop_grace_ms, uint32_t, DURATION, WISH, 0, MSG_DURATION_MAX_MS, 5000, 10, "5s",             \
      "stop-grace", "TIME", "a node that needs so much and 30 s more to stop is left out")         \
    X(elastic_timeout_ms, uint32_t, DURATION, WISH, 0, MSG_DURATION_MAX_MS, 0, 16, "0",            \
      "elastic-timeout", "TIME",                                                                   \
      "a job with fewer nodes than it needs for so long fails; 0: it waits for ever")              \
    X(chief_grace_ms, uint32_t, DURATION, WISH, 0, MSG_DURATION_MAX_MS, 0, 21, "0", "chief-grace", \
      "TIME", "a switch waits so long for a rank 0 of which nothing is known")                     \
    X(no_grow, bool, FLAG, FIRST, 0, 1, 0, 20, NULL, "no-grow", NULL,                              \
      "never interrupt a running epoch to take more nodes in")                                     \
    X(retry_start, bool, FLAG, FIRST, 0, 1, 0, 28, NULL, "retry-start", NULL,                      \
      "start again also where the first start fails alike on all ranks, at once")                  \
    X(n_ps, uint32_t, COUNT, SAME, 0, MSG_NODES_MAX, 0, 40, "0", "ps", "N",                        \
      "parameter servers, each on one more node")                                                  \
    X(chief, bool, FLAG, SAME, 0, 1, 0, 41, NULL, "chief", NULL,                                   \
      "one more node is the chief, in a job of its own in TF_CONFIG")                              \
    X(evaluator, bool, FLAG, SAME, 0, 1, 0, 42, NULL, "evaluator", NULL,                           \
      "one more node evaluates, outside of the cluster")                                           \
    X(all_workers, bool, FLAG, FIRST, 0, 1, 0, 61, NULL, "all-workers", NULL,                      \
      "success is that of all workers, not of worker 0 alone; not where there is a chief")         \
    X(linger, bool, FLAG, FIRST, 0, 1, 0, 62, NULL, "linger", NULL,                                \
      "after the job's success what still runs goes on until it ends by itself")                   \
    X(finish_idle_ms, uint32_t, DURATION, WISH, 0, MSG_DURATION_MAX_MS, 1800000, 65, "30m",        \
      "finish-idle", "TIME",                                                                       \
      "once another rank has ended well, rank 0 is ended without a sign of life for so long")      \
    X(require_cluster, bool, FLAG, FIRST, 0, 1, 0, 66, NULL, "require-cluster", NULL,              \
      "a script that does not use the cluster of its TF_CONFIG has failed")                        \
    X(min_running, uint32_t, COUNT, FIRST, 0, MSG_NODES_MAX, 0, 64, "1", "min-running", "N",       \
      "with --ps: a running epoch goes on while so many workers are left")
#define JOB_SPEC_FIELDS(X)                                                                         \
    X(min_nodes, uint32_t, COUNT, SAME, 1, MSG_NODES_MAX, 1, 4, NULL)                              \
    X(max_nodes, uint32_t, COUNT, SAME, 1, MSG_NODES_MAX, 1, 5, NULL)                              \
    JOB_SPEC_OPTIONS(X)                                                                            \
    /* --grow now: at once, and without a checkpoint. no_grow is never, neither of them auto. */   \
    X(grow_now, bool, FLAG, FIRST, 0, 1, 0, 26, NULL)                                              \
    /* --restart-policy, of each role: job_restart_policy. */                                      \
    X(restart_policies, uint32_t, COUNT, FIRST, 0, JOB_RESTART_MAX, 0, 63, NULL)                   \
    /* Of script and arguments: tells a late node from a new run. */                               \
    X(script_digest, uint64_t, DIGEST, FIRST, 0, 0, 0, 13, NULL)

struct job_spec {
#define JOB_SPEC_MEMBER(name, type, ...) type name;
    JOB_SPEC_FIELDS(JOB_SPEC_MEMBER)
#undef JOB_SPEC_MEMBER
};

struct job_spec_field {
    const char *name; /* of the member, and of the record's column */
    size_t offset;
    enum job_spec_kind kind;
    enum job_spec_who who;
    uint32_t least, most; /* COUNT, DURATION */
    uint32_t setting;
    uint8_t tag; /* in JOIN */
};

#define JOB_SPEC_PLUS_ONE(...) +1
#define JOB_SPEC_N (0 JOB_SPEC_FIELDS(JOB_SPEC_PLUS_ONE))
extern const struct job_spec_field job_spec_fields[JOB_SPEC_N];

/* Whether a job that is handed in may set the option of tfe-agent with these n bytes as its name:
 * what it wishes, and no place or person of the machine that it comes to. Sizes and roles are
 * fields of such a job, and no options. */
bool job_option_is_free(const char *name, size_t n);

/* Of one role; and policies with this one for it. */
uint32_t job_restart_policy(uint32_t policies, uint32_t task);
uint32_t job_restart_set(uint32_t policies, uint32_t task, uint32_t policy);

/* The job succeeds with all of its workers, and not with its first trainer. */
bool job_takes_all(const struct job_spec *spec);

/* One of one trainer on one node; nobody has a wish. */
void job_spec_init(struct job_spec *spec);
/* Wishes that are open take the value that they have in settings. */
void job_spec_fill(struct job_spec *spec, const struct job_spec *settings);
/* Whether each field is in its range (an open wish is), and min_nodes is at most max_nodes. */
bool job_spec_is_sound(const struct job_spec *spec);
/* Whether they agree in all that is SAME. */
bool job_spec_agrees(const struct job_spec *a, const struct job_spec *b);

#endif
