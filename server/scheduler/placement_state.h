/* server/scheduler/placement_state.h: internal state of placement. Private to server/scheduler. */
#ifndef TFE_SERVER_SCHEDULER_PLACEMENT_STATE_H
#define TFE_SERVER_SCHEDULER_PLACEMENT_STATE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include "common/base/id.h"
#include "server/scheduler/placement.h"

#define CLASS_NONE PLACEMENT_CLASSES_MAX

enum place_state {
    PLACE_FREE,
    PLACE_ASSIGNED,
    PLACE_LEAVING, /* released and not freed yet, or taken out of the pool */
};

struct place_node {
    RB_ENTRY(place_node) by_id;
    /* list entry: a free node is in its class's list; an assigned node in its job's, the newest
     * last */
    TAILQ_ENTRY(place_node) entry;
    struct tfe_id id;
    enum place_state state;
    bool is_here;
    bool is_removed; /* the node is to leave: it gets no work and does not count as part of the pool
                      */
    /* the node's machine will be terminated: it gets no new work, and its job counts it as lacking
     */
    bool is_warned;
    bool is_picked; /* during a step: chosen to be taken from its job */
    /* index of the class; CLASS_NONE if the node has not connected since the restart */
    uint32_t class;
    uint64_t assignment;   /* number of the assignment; 0 if none */
    struct place_job *job; /* job of the assignment; NULL if none, or if the job is unknown */
    enum tfe_task task;
    struct tfe_mono idle_since; /* since when a free node has been idle */
    int64_t idle_exit_ms; /* the node leaves after it has been idle for this long; 0: it stays */
    uint32_t floor;
};

TAILQ_HEAD(place_list, place_node);
RB_HEAD(place_tree, place_node);

/* Nodes with the same labels. */
struct place_class {
    char *labels; /* sorted labels, each with its NUL; NULL if the class is unused */
    size_t n_bytes;
    bool is_durable; /* the label spot=false is among the labels */
    uint32_t n_nodes;
    uint32_t n_here;
    uint32_t n_free;
    uint32_t n_coming; /* number of connected nodes that are leaving their jobs */
    struct place_list free;
};

/* Quota of the jobs that match a pattern. */
struct place_quota {
    char pattern[MSG_SCOPE_MAX + 1]; /* pattern of the job names; "" if the quota is unused */
    uint32_t nodes;                  /* number of nodes that the jobs may have together */
    /* number of nodes that the jobs hold or that are leaving them; number of those that are
     * leaving */
    uint32_t used, leaving;
    /* During a step: */
    uint32_t kept;    /* nodes reserved for waiting jobs; jobs behind them do not get these */
    uint32_t n_short; /* number of jobs that wait for a part of this quota */
};

struct place_job {
    struct tfe_id name;
    uint64_t age; /* smaller means older */
    uint32_t priority;
    bool preempt;
    bool is_suspended;
    bool is_over;
    bool keeps_nodes; /* the job is over and keeps its nodes until they are freed */
    bool is_given_up; /* during a step: all nodes of the job are taken */
    bool is_too_large;
    uint32_t lacks;
    uint64_t quotas;   /* bit set of the quotas whose pattern the job matches */
    uint64_t short_of; /* bit set of the quotas of which the job waits for a part */
    uint32_t share;    /* number of nodes by which the smallest of these quotas is exceeded */
    bool is_above;     /* the job lacks nodes of its minimum, and that minimum exceeds a quota */
    /* last reported reason of waiting: 0 if it is no quota; else 2 × index of the quota + 1, or + 2
     * if is_above */
    uint8_t reported_wait;
    /* For programs that start machines: the minimum is not shown as demand (hides); number of
     * workers to show beyond the minimum (may_add). */
    bool hides;
    uint32_t may_add;
    uint32_t max_min; /* largest minimum that the job's quotas allow now */
    uint32_t n_picked;
    uint32_t min[PLACEMENT_TASKS], max[PLACEMENT_TASKS];
    uint32_t held[PLACEMENT_TASKS];
    /* number of assigned nodes that are warned, by task; not included in held */
    uint32_t warned[PLACEMENT_TASKS];
    /* Number of held and connected nodes, by class: workers, and nodes with other tasks. They let
     * the number of nodes that others may take be counted without visiting the nodes. */
    uint32_t workers_here[PLACEMENT_CLASSES_MAX], others_here[PLACEMENT_CLASSES_MAX];
    uint32_t n_leaving;
    uint32_t gain_milli;
    enum placement_job_state state;
    struct tfe_mono since;
    struct place_list nodes;
    char *labels; /* required labels: for each a byte with a bit set of tasks, the text, its NUL */
    size_t n_bytes;
    /* bit set of the tasks that nodes of each class may have in the job */
    uint8_t kinds[PLACEMENT_CLASSES_MAX];
    uint64_t for_workers; /* bit set of the classes (1 << class) whose nodes may be workers */
};

struct placement {
    const struct tfe_mem *mem;
    struct placement_config config;
    struct tfe_mono now;
    uint64_t last_assignment;
    uint64_t last_age;
    struct place_tree nodes;
    size_t n_nodes;
    size_t n_idle_exit;      /* number of nodes that leave when they are idle */
    struct place_job **jobs; /* in order of priority, then age */
    size_t n_jobs, cap_jobs;
    struct place_class classes[PLACEMENT_CLASSES_MAX];
    struct place_quota quotas[PLACEMENT_QUOTAS_MAX];
    uint32_t n_classes;               /* index after the last class in use */
    struct placement_action *actions; /* array with space for every action of a step */
    size_t n_actions, cap_actions;
    struct place_node **picked; /* array with space for every node */
    size_t n_picked, cap_picked;
};

int place_node_compare(const struct place_node *a, const struct place_node *b);
RB_PROTOTYPE(place_tree, place_node, by_id, place_node_compare)

/* --- labels.c --- */
/* Sorts the labels into a new block, allocated from mem. Returns TFE_EINVAL if one is not K=V, one
 * is too long or there are too many; TFE_ENOMEM. */
int labels_gather(const struct tfe_mem *mem, const char *const *labels, size_t n, char **ret,
                  size_t *ret_bytes) TFE_MUST_CHECK;
/* Finds the class with these labels, or makes it. Takes ownership of labels, also on an error.
 * Returns 0 or TFE_EFULL. */
int class_find(struct placement *p, char *labels, size_t n_bytes, uint32_t *ret) TFE_MUST_CHECK;
/* Copies the job's required labels and computes the tasks of each class in it. Returns TFE_EINVAL,
 * TFE_ENOMEM. */
int job_set_labels(struct placement *p, struct place_job *job,
                   const struct placement_options *options) TFE_MUST_CHECK;

/* Like labels_gather, for the class's labels with these ones added or replaced by key. */
int labels_replace(const struct tfe_mem *mem, const struct place_class *class,
                   const char *const *labels, size_t n, char **ret,
                   size_t *ret_bytes) TFE_MUST_CHECK;

/* --- move.c: changes of a node's assignment; all counters are updated here --- */
/* Changes the node's class. Its assignment, or the time since which it is idle, stays. */
void node_set_class(struct placement *p, struct place_node *node, uint32_t class);
void node_set_free(struct placement *p, struct place_node *node);
void node_set_assigned(struct placement *p, struct place_node *node, struct place_job *job,
                       enum tfe_task task, uint64_t assignment);
void node_set_leaving(struct placement *p, struct place_node *node);
void node_set_here(struct placement *p, struct place_node *node, bool is_here);
void node_set_removed(struct placement *p, struct place_node *node);
/* Sets whether the node's machine will be terminated. Its assignment, or the time since which it is
 * idle, stays. */
void node_set_warned(struct placement *p, struct place_node *node, bool is_warned);
/* Takes the node from its job or its class's list. It is leaving until the caller sets another
 * state. */
void node_unset(struct placement *p, struct place_node *node);
void act_assign(struct placement *p, struct place_node *node, struct place_job *job,
                enum tfe_task task);
void act_release(struct placement *p, struct place_node *node, enum placement_reason reason);
void act_leave(struct placement *p, struct place_node *node);
void act_waits(struct placement *p, const struct place_job *job);
/* Sends RELEASE again, because the earlier one may have been lost. */
void act_release_again(struct placement *p, const struct place_node *node, uint64_t assignment);

/* Returns true if the node counts for its job: assigned and not warned. */
static inline bool node_is_held(const struct place_node *node)
{
    return node->state == PLACE_ASSIGNED && !node->is_warned;
}

/* --- quota.c --- */
/* Removes the next quota from the set and returns it, or NULL if the set is empty. */
struct place_quota *quota_next(struct placement *p, uint64_t *set);
/* Sets the quota of a pattern. Returns TFE_EINVAL, or TFE_EFULL. */
int quota_set(struct placement *p, const char *pattern, uint32_t nodes) TFE_MUST_CHECK;
/* Returns the bit set of the quotas whose pattern matches the name of a job. */
uint64_t quotas_of(const struct placement *p, const char *job);
/* Adds `by` nodes to the job's quotas, `leaving` of which are leaving it. Negative numbers are
 * passed as unsigned. */
void quota_count(struct placement *p, const struct place_job *job, uint32_t by, uint32_t leaving);
/* Returns by how many nodes the quota would be exceeded with n more; soon: once all that are
 * leaving have left. */
uint32_t quota_lacks(const struct place_quota *q, uint32_t n, bool soon);
/* Returns the quotas of the set that would be exceeded with n more nodes. */
uint64_t quotas_below(struct placement *p, uint64_t set, uint32_t n, bool soon);
/* Reserves n nodes of each quota of the set: jobs behind do not get them. */
void quotas_keep(struct placement *p, uint64_t set, uint32_t n);
/* Returns the smallest quota of the set, or NULL if the set is empty. */
const struct place_quota *quota_smallest(const struct placement *p, uint64_t set);
/* Returns the quota for which the job waits, or NULL. */
const struct place_quota *quota_of_wait(const struct placement *p, const struct place_job *job);
/* Computes how many machines may be started for each job, and the largest minimum that each could
 * have. */
void quotas_share_out(struct placement *p);

/* Returns how many more nodes the job needs for the minimum of a task. */
static inline uint32_t job_needs(const struct place_job *job, unsigned task)
{
    return job->min[task] > job->held[task] ? job->min[task] - job->held[task] : 0;
}

static inline uint32_t task_sum(const uint32_t n[PLACEMENT_TASKS])
{
    return n[TASK_WORKER] + n[TASK_CHIEF] + n[TASK_PS] + n[TASK_EVALUATOR];
}

static inline uint32_t job_lacks(const struct place_job *job)
{
    return job_needs(job, TASK_WORKER) + job_needs(job, TASK_CHIEF) + job_needs(job, TASK_PS) +
           job_needs(job, TASK_EVALUATOR);
}

/* Returns true if the job has its minimum, warned nodes included. */
static inline bool job_can_run(const struct place_job *job)
{
    bool can = true;
    for (unsigned task = 0; task < PLACEMENT_TASKS; task++) {
        can = can && job_needs(job, task) <= job->warned[task];
    }
    return can;
}

static inline bool job_is_active(const struct place_job *job)
{
    return !job->is_over && !job->is_suspended;
}

/* --- decide.c --- */
/* Decides all assignments and releases by the rules of placement.h. Returns when to call again. */
struct tfe_mono decide(struct placement *p);

#endif
