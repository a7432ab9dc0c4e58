/* common/message/job_spec.h: the settings of a job: one struct and one table of its fields. The
 * encoding of JOIN, range checks, the stored record and the options of both programs follow the
 * table, so a new field needs a row here, a field in tfe.proto and its rule in the core. Pure. */
#ifndef TFE_COMMON_MESSAGE_JOB_SPEC_H
#define TFE_COMMON_MESSAGE_JOB_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/range.h"

/* Restart policies by role: two bits (enum tfe_restart_policy) per enum tfe_task, lowest task
 * first. */
#define JOB_RESTART_MAX 0xffu
/* The same restart policy for all roles. */
#define JOB_RESTART_ALL(policy) ((uint32_t)(policy)*0x55u)

/* How a field is stored, encoded and validated. */
enum job_spec_kind {
    JOB_SPEC_COUNT,    /* uint32_t */
    JOB_SPEC_DURATION, /* uint32_t in milliseconds */
    JOB_SPEC_FLAG,     /* bool */
    JOB_SPEC_DIGEST    /* uint64_t with any value; 0 if unknown */
};

/* Who decides the value of a field. SAME: all agents of a job must send the same value. OPTIONAL:
 * the agent that opens the job, else (MSG_UNSET) the server's setting. FIRST: the agent that opens
 * the job. */
enum job_spec_who { JOB_SPEC_SAME, JOB_SPEC_OPTIONAL, JOB_SPEC_FIRST };

/* X(member, type, kind, who, minimum, maximum, default of the server's setting, tag in JOIN,
 * default as text, option, argument, help). An OPTIONAL field is an option of both programs, any
 * other field an option of tfe-agent. */
#define JOB_SPEC_OPTIONS(X)                                                                        \
    X(nproc, uint32_t, COUNT, SAME, 1, MSG_NPROC_MAX, 1, 6, "1", "nproc-per-node", "N",            \
      "number of trainers on this node, or gpu, cpu or auto")                                      \
    X(max_restarts, uint32_t, COUNT, OPTIONAL, 0, 1000000, 3, 7, "3", "max-restarts", "N",         \
      "number of failures of its script that a job survives")                                      \
    X(gather_ms, uint32_t, DURATION, OPTIONAL, 0, MSG_DURATION_MAX_MS, 3000, 8, "3s", "gather",    \
      "TIME", "first start: time to wait for a further node after the last one joined")            \
    X(grow_wait_ms, uint32_t, DURATION, OPTIONAL, 0, MSG_DURATION_MAX_MS, 60000, 9, "60s",         \
      "grow-wait", "TIME", "maximum wait for a checkpoint before a job grows")                     \
    X(stop_grace_ms, uint32_t, DURATION, OPTIONAL, 0, MSG_DURATION_MAX_MS, 5000, 10, "5s",         \
      "stop-grace", "TIME", "time for trainers to save and end at a planned stop")                 \
    X(elastic_timeout_ms, uint32_t, DURATION, OPTIONAL, 0, MSG_DURATION_MAX_MS, 0, 16, "0",        \
      "elastic-timeout", "TIME",                                                                   \
      "a job fails after this time with fewer ready nodes than its minimum; 0: never")             \
    X(chief_grace_ms, uint32_t, DURATION, OPTIONAL, 0, MSG_DURATION_MAX_MS, 0, 21, "0",            \
      "chief-grace", "TIME", "time that a switch waits for a rank 0 whose state is unknown")       \
    X(no_grow, bool, FLAG, FIRST, 0, 1, 0, 20, NULL, "no-grow", NULL,                              \
      "never end a running epoch to add nodes")                                                    \
    X(retry_start, bool, FLAG, FIRST, 0, 1, 0, 28, NULL, "retry-start", NULL,                      \
      "restart even if the first start fails at once in the same way on all ranks")                \
    X(n_ps, uint32_t, COUNT, SAME, 0, MSG_NODES_MAX, 0, 40, "0", "ps", "N",                        \
      "number of parameter servers, each on a separate node")                                      \
    X(chief, bool, FLAG, SAME, 0, 1, 0, 41, NULL, "chief", NULL,                                   \
      "the job has a chief on a separate node")                                                    \
    X(evaluator, bool, FLAG, SAME, 0, 1, 0, 42, NULL, "evaluator", NULL,                           \
      "the job has an evaluator on a separate node, outside the cluster")                          \
    X(all_workers, bool, FLAG, FIRST, 0, 1, 0, 61, NULL, "all-workers", NULL,                      \
      "the job succeeds with all workers, not with worker 0 alone; no effect with a chief")        \
    X(linger, bool, FLAG, FIRST, 0, 1, 0, 62, NULL, "linger", NULL,                                \
      "after the job's success, other trainers run until they end by themselves")                  \
    X(finish_idle_ms, uint32_t, DURATION, OPTIONAL, 0, MSG_DURATION_MAX_MS, 1800000, 65, "30m",    \
      "finish-idle", "TIME",                                                                       \
      "after another rank has exited with status 0, end rank 0 after this time without activity")  \
    X(require_cluster, bool, FLAG, FIRST, 0, 1, 0, 66, NULL, "require-cluster", NULL,              \
      "fail a script that does not use the cluster in its TF_CONFIG")                              \
    X(min_running, uint32_t, COUNT, FIRST, 0, MSG_NODES_MAX, 0, 64, "1", "min-running", "N",       \
      "with --ps: a running epoch continues while at least this many workers remain")
#define JOB_SPEC_FIELDS(X)                                                                         \
    X(min_nodes, uint32_t, COUNT, SAME, 1, MSG_NODES_MAX, 1, 4, NULL)                              \
    X(max_nodes, uint32_t, COUNT, SAME, 1, MSG_NODES_MAX, 1, 5, NULL)                              \
    JOB_SPEC_OPTIONS(X)                                                                            \
    /* --grow now: grow at once, without a checkpoint. no_grow is --grow never; neither flag is    \
     * --grow auto. */                                                                             \
    X(grow_now, bool, FLAG, FIRST, 0, 1, 0, 26, NULL)                                              \
    /* --restart-policy of each role, encoded as in job_restart_policy. */                         \
    X(restart_policies, uint32_t, COUNT, FIRST, 0, JOB_RESTART_MAX, 0, 63, NULL)                   \
    /* Digest of script and arguments; distinguishes a late node from a new run. */                \
    X(script_digest, uint64_t, DIGEST, FIRST, 0, 0, 0, 13, NULL)                                   \
    /* First 16 digits of the git commit of the node's files (git_commit_number); 0 without        \
     * --git. */                                                                                   \
    X(commit, uint64_t, DIGEST, SAME, 0, 0, 0, 67, NULL)

struct job_spec {
#define JOB_SPEC_MEMBER(name, type, ...) type name;
    JOB_SPEC_FIELDS(JOB_SPEC_MEMBER)
#undef JOB_SPEC_MEMBER
};

struct job_spec_field {
    const char *name; /* name of the member, and of the column in the record */
    size_t offset;
    enum job_spec_kind kind;
    enum job_spec_who who;
    uint32_t min, max; /* range of a COUNT or DURATION */
    uint32_t setting;
    uint8_t tag; /* field number in JOIN */
};

#define JOB_SPEC_PLUS_ONE(...) +1
#define JOB_SPEC_N (0 JOB_SPEC_FIELDS(JOB_SPEC_PLUS_ONE))
extern const struct job_spec_field job_spec_fields[JOB_SPEC_N];

/* job_restart_policy returns the policy of one task; job_restart_set returns policies with one
 * task's policy replaced. */
uint32_t job_restart_policy(uint32_t policies, uint32_t task);
uint32_t job_restart_set(uint32_t policies, uint32_t task, uint32_t policy);

/* True if the job succeeds when all its workers have exited with status 0, not only its first
 * trainer. */
bool job_needs_all_workers(const struct job_spec *spec);

/* Initialises a job of one trainer on one node, with MSG_UNSET in every OPTIONAL field. */
void job_spec_init(struct job_spec *spec);
/* Replaces each OPTIONAL field that is MSG_UNSET by its value in settings. */
void job_spec_fill(struct job_spec *spec, const struct job_spec *settings);
/* True if each field is within its range (MSG_UNSET is, in an OPTIONAL field) and min_nodes <=
 * max_nodes. */
bool job_spec_is_valid(const struct job_spec *spec);
/* Returns true if both have the same values in all SAME fields. */
bool job_spec_agrees(const struct job_spec *a, const struct job_spec *b);

#endif
