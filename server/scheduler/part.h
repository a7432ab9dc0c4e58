/* server/scheduler/part.h: what placement remembers. Only for the files of this room. */
#ifndef TFE_SERVER_SCHEDULER_PART_H
#define TFE_SERVER_SCHEDULER_PART_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include "common/base/id.h"
#include "server/scheduler/placement.h"

#define CLASS_NONE PLACEMENT_CLASSES_MAX

enum place_state {
    PLACE_FREE,
    PLACE_ASSIGNED,
    PLACE_LEAVING, /* released, and not yet freed; or out */
};

struct place_node {
    RB_ENTRY(place_node) by_id;
    TAILQ_ENTRY(place_node) beside; /* free: of its class; assigned: of its job, the newest last */
    struct tfe_id id;
    enum place_state state;
    bool is_here;
    bool is_out;           /* it is to leave: nobody's any more, and no part of the pool */
    bool is_warned;        /* its machine will go: it is given to nobody, and its job lacks it */
    bool is_picked;        /* during a step: to be taken from its job */
    uint32_t class;        /* CLASS_NONE: not heard since the restart */
    uint64_t assignment;   /* 0: none */
    struct place_job *job; /* NULL: none, or nobody knows it */
    enum tfe_task task;
    struct tfe_mono idle_since; /* free */
    int64_t idle_exit_ms;       /* 0: it stays */
    uint32_t floor;
};

TAILQ_HEAD(place_list, place_node);
RB_HEAD(place_tree, place_node);

/* Nodes with the same labels. */
struct place_class {
    char *labels; /* sorted, each with its NUL; NULL: not in use */
    size_t n_bytes;
    bool is_durable; /* spot=false */
    uint32_t n_nodes;
    uint32_t n_here;
    uint32_t n_free;
    uint32_t n_coming; /* here and leaving */
    struct place_list free;
};

/* Jobs of one pattern. */
struct place_quota {
    char pattern[MSG_SCOPE_MAX + 1]; /* "" not in use */
    uint32_t nodes;                  /* that they may have together */
    uint32_t used, leaving; /* that they hold or that are leaving them; of those, the latter */
    /* During a step. */
    uint32_t kept;    /* for those who wait: nobody behind them gets it */
    uint32_t n_short; /* jobs that wait for a share of it */
};

struct place_job {
    struct tfe_id name;
    uint64_t age; /* smaller is older */
    uint32_t priority;
    bool preempt;
    bool is_suspended;
    bool is_over;
    bool lets_run;    /* … and keeps what it has */
    bool is_given_up; /* during a step: all its nodes are taken */
    bool is_too_large;
    uint32_t lacks;
    uint64_t quotas;   /* bit 1 << quota: it is of the pattern … */
    uint64_t short_of; /* … and waits for a share of it */
    uint32_t share;    /* that it needs then */
    bool is_above;     /* a quota is less than its minimum, of which it lacks some */
    uint8_t told;      /* why it waits: 0 no quota; else 2 * which + 1, + 1 where it is above it */
    /* What may be ordered for it: not its minimum; how many workers beyond that. */
    bool hides;
    uint32_t may_add;
    uint32_t most; /* the largest minimum that could be its own */
    uint32_t n_picked;
    uint32_t min[PLACEMENT_TASKS], max[PLACEMENT_TASKS];
    uint32_t held[PLACEMENT_TASKS];
    uint32_t warned[PLACEMENT_TASKS]; /* besides: its own for as long as they last */
    /* … of those that are held and here, by class: what others may take can be counted, not walked.
     */
    uint32_t workers_here[PLACEMENT_CLASSES_MAX], others_here[PLACEMENT_CLASSES_MAX];
    uint32_t n_leaving;
    uint32_t gain_milli;
    enum placement_job_state state;
    struct tfe_mono since;
    struct place_list nodes;
    char *labels; /* per label: a byte of tasks, the text, its NUL */
    size_t n_bytes;
    uint8_t kinds[PLACEMENT_CLASSES_MAX]; /* what nodes of each class may do in it … */
    uint64_t for_workers;                 /* … bit 1 << class: it may work */
};

struct placement {
    const struct tfe_mem *mem;
    struct placement_config config;
    struct tfe_mono now;
    uint64_t last_assignment;
    uint64_t last_age;
    struct place_tree nodes;
    size_t n_nodes;
    size_t n_idle_exit;      /* nodes that leave when they are idle */
    struct place_job **jobs; /* in order */
    size_t n_jobs, cap_jobs;
    struct place_class classes[PLACEMENT_CLASSES_MAX];
    struct place_quota quotas[PLACEMENT_QUOTAS_MAX];
    uint32_t n_classes;               /* all that are in use come before */
    struct placement_action *actions; /* room for one of each node */
    size_t n_actions, cap_actions;
    struct place_node **picked; /* likewise */
    size_t n_picked, cap_picked;
};

int place_node_compare(const struct place_node *a, const struct place_node *b);
RB_PROTOTYPE(place_tree, place_node, by_id, place_node_compare)

/* --- class.c: labels */
/* Sorted, in memory of mem's. TFE_EINVAL: not K=V, too long, or too many. */
int labels_gather(const struct tfe_mem *mem, const char *const *labels, size_t n, char **ret,
                  size_t *ret_bytes) TFE_MUST_CHECK;
/* The class with these labels, made if there is none; the labels are its own then, else freed, also
 * on an error. TFE_EFULL. */
int class_find(struct placement *p, char *labels, size_t n_bytes, uint32_t *ret) TFE_MUST_CHECK;
/* Takes the job's labels and works out what each class may do in it. TFE_EINVAL, TFE_ENOMEM. */
int job_take_labels(struct placement *p, struct place_job *job,
                    const struct placement_wish *wish) TFE_MUST_CHECK;

/* The class's labels but for those with the keys of these, and these; else as labels_gather. */
int labels_replace(const struct tfe_mem *mem, const struct place_class *class,
                   const char *const *labels, size_t n, char **ret,
                   size_t *ret_bytes) TFE_MUST_CHECK;

/* --- move.c: a node from one hand to another; all counts are kept here */
/* Stays in whose hand it is, and as idle as it was. */
void node_set_class(struct placement *p, struct place_node *node, uint32_t class);
void node_set_free(struct placement *p, struct place_node *node);
void node_set_assigned(struct placement *p, struct place_node *node, struct place_job *job,
                       enum tfe_task task, uint64_t assignment);
void node_set_leaving(struct placement *p, struct place_node *node);
void node_set_here(struct placement *p, struct place_node *node, bool is_here);
void node_set_out(struct placement *p, struct place_node *node);
/* Stays in whose hand it is, and as idle as it was. */
void node_set_warned(struct placement *p, struct place_node *node, bool is_warned);
/* Out of every hand: to be freed, or moved on. */
void node_unset(struct placement *p, struct place_node *node);
void act_assign(struct placement *p, struct place_node *node, struct place_job *job,
                enum tfe_task task);
void act_release(struct placement *p, struct place_node *node, enum placement_reason reason);
void act_leave(struct placement *p, struct place_node *node);
void act_waits(struct placement *p, const struct place_job *job);
/* Says so once more: the one before may be lost. */
void act_release_again(struct placement *p, const struct place_node *node, uint64_t assignment);

/* Whether it is one that its job holds: none whose machine will go. */
static inline bool node_is_held(const struct place_node *node)
{
    return node->state == PLACE_ASSIGNED && !node->is_warned;
}

/* --- quota.c */
/* The next quota of a set, which it leaves; NULL: it is empty. */
struct place_quota *quota_next(struct placement *p, uint64_t *set);
/* TFE_EINVAL, TFE_EFULL. */
int quota_take(struct placement *p, const char *pattern, uint32_t nodes) TFE_MUST_CHECK;
/* Of which patterns a job is that has no node yet. */
uint64_t quotas_of(const struct placement *p, const char *job);
/* A node comes to a job, or (by -1 as unsigned) goes; likewise of those that are leaving it. */
void quota_count(struct placement *p, const struct place_job *job, uint32_t by, uint32_t leaving);
/* How many nodes too few a quota has left for n more; soon: once all have gone that are leaving. */
uint32_t quota_lacks(const struct place_quota *q, uint32_t n, bool soon);
/* Those of a set that have too few left. */
uint64_t quotas_below(struct placement *p, uint64_t set, uint32_t n, bool soon);
/* Nobody behind gets what is kept. */
void quotas_keep(struct placement *p, uint64_t set, uint32_t n);
/* The smallest of a set; NULL: it is empty. */
const struct place_quota *quota_least(const struct placement *p, uint64_t set);
/* The one that is why a job waits; NULL: none. */
const struct place_quota *quota_of_wait(const struct placement *p, const struct place_job *job);
/* What may be ordered for each job, and which minimum it could have. */
void quotas_share_out(struct placement *p);

/* What a job needs of nodes beyond those that it has. */
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

/* Whether it has its minimum, if only with nodes whose machines will go. */
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

/* --- decide.c */
/* What follows from all that is known. Returns when to look again. */
struct tfe_mono decide(struct placement *p);

#endif
