/* server/scheduler/placement.h: placement: which node of the pool works for which submitted job.
 * Pure: no I/O, no clock; the same events give the same actions. The core of jobs and epochs
 * (server/core) does not depend on it: an assigned node joins its job like one that was started by
 * hand.
 *
 * Rules:
 * - Jobs are served in order of priority, then of age. Each gets what its tasks lack of their
 *   minimum, all at once or nothing. A job that waits reserves the nodes that it can use, if the
 *   pool could ever be large enough for it, so that no job behind it overtakes it for ever.
 * - To reach a minimum (not to grow), a job takes workers above other jobs' minima, from jobs of
 *   the same or lower priority, the last in order first; with preempt also all nodes of a job of
 *   lower priority.
 * - The remaining nodes go to the jobs in which one more worker helps most.
 * - Chief and ps prefer nodes with spot=false, workers and evaluators those without. A node that
 *   gets labels later keeps its work.
 * - A released node belongs to no job until it is freed, or its lease and fence have ended.
 * - A node that no job needs leaves after its idle time, the longest idle first, unless fewer nodes
 *   than its floor would remain. A node that was taken out gets no more work.
 * - A warned node (its machine will be terminated) keeps its work, gets no new work, and counts
 * neither for the pool nor for its job nor for a quota until the warning is withdrawn: its job gets
 * a replacement. When it counts again and its job has too many nodes with it, the newest one is
 *   released. A job that can run with its warned nodes gives up none.
 * - A step that assigned nodes while a job waits is followed by another one at once, because other
 *   jobs may now be able to do without nodes that the waiting one can use. No job that could be
 *   served waits without a further step being due.
 *
 * Quotas:
 * - Jobs that match a pattern have at most this many nodes together: those assigned to them, except
 *   warned ones, and those released and not freed yet. A job counts for each pattern that it
 *   matches.
 * - To reach its minimum a job takes from the quota of other jobs of the pattern (and of its own
 *   workers above its minimum) as it takes nodes, and nodes of any job once it has its part of the
 *   quota. A job that waits for a part of a quota reserves it, so that no job of the pattern
 *   overtakes, and delays no other job.
 * - Lowering a quota below what jobs have takes nothing away; but a job that lacks nodes of a
 *   minimum above the quota gives up the rest. */
#ifndef TFE_SERVER_SCHEDULER_PLACEMENT_H
#define TFE_SERVER_SCHEDULER_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/mem.h"
#include "common/base/time.h"
#include "common/message/msg.h"

struct placement;

#define PLACEMENT_TASKS 4u       /* enum tfe_task: worker, chief, ps, evaluator */
#define PLACEMENT_LABEL_MAX 128u /* maximum length of a label K=V in bytes */
#define PLACEMENT_LABELS_MAX 34u /* maximum number of labels of a node, or of a job */
/* Prefix of the label of a node that works only for jobs that match the pattern behind it. */
#define PLACEMENT_SCOPE "@jobs="
#define PLACEMENT_PRIORITY_MAX 1000u
/* Maximum number of different sets of labels. Every job stores the permitted tasks for each. */
#define PLACEMENT_CLASSES_MAX 64u
/* Maximum number of sets of labels of nodes whose token has the same pattern. */
#define PLACEMENT_CLASSES_OF_SCOPE 16u
/* Maximum number of quotas. Every job stores a bit for each. */
#define PLACEMENT_QUOTAS_MAX 64u
/* Maximum number of nodes assigned beyond the jobs' minima in one step; the rest follows in the
 * next step, at once. */
#define PLACEMENT_GROWTH_MAX 1024u

struct placement_config {
    /* A job that has lost nodes and lacks some of its minimum gives up the remaining ones after
     * this time, if another job waits or it exceeds a quota. */
    int64_t gang_wait_ms;
};

/* A label that a node must have for one of these tasks (bit set of 1 << enum tfe_task). */
struct placement_label {
    uint8_t tasks;
    const char *text; /* label text, K=V */
};

/* Requirements of a job. */
struct placement_options {
    uint32_t priority; /* higher priority is served first; at most PLACEMENT_PRIORITY_MAX */
    bool preempt;      /* to get its minimum, the job ends jobs of lower priority */
    bool is_suspended; /* the job has no nodes until it is resumed */
    uint32_t min[PLACEMENT_TASKS]; /* minimum number of nodes per task; at least one in total */
    /* maximum number of nodes per task; above min for workers only */
    uint32_t max[PLACEMENT_TASKS];
    const struct placement_label *labels;
    size_t n_labels;
};

enum placement_event_type {
    /* node, labels, assignment: the node has connected and works for this assignment (0: none) */
    PLACEMENT_NODE_CONNECTED,
    PLACEMENT_NODE_LABELS,  /* node, labels: adds labels, replacing those with the same keys */
    PLACEMENT_NODE_LOST,    /* node: its connection has ended */
    PLACEMENT_NODE_GONE,    /* node: its lease and its fence have ended */
    PLACEMENT_NODE_FREED,   /* node, assignment: the node has no process of the assignment left */
    PLACEMENT_NODE_REMOVED, /* node: an operator takes it out of the pool */
    /* node, is_warned: its machine will be terminated, or the notice was withdrawn */
    PLACEMENT_NODE_WARNED,
    /* job, options: a new job, or the next run of a job that is over, which counts as new */
    PLACEMENT_JOB_SUBMITTED,
    PLACEMENT_JOB_CHANGED,   /* job, options: scale, suspend, resume, or another priority */
    PLACEMENT_JOB_GAIN,      /* job, gain_milli: measured gain of its last worker */
    PLACEMENT_JOB_OVER,      /* job, keeps_nodes: the job has ended or was cancelled */
    PLACEMENT_JOB_FORGOTTEN, /* job: forget a job that is over and has no nodes */
    /* node, job, assignment, task: an assignment from before the server's restart */
    PLACEMENT_RESTORED,
    /* pattern, nodes: maximum number of nodes of its jobs together; 0 removes the quota */
    PLACEMENT_QUOTA,
    PLACEMENT_TICK,
};

struct placement_event {
    enum placement_event_type type;
    struct tfe_mono now;
    const char *node;
    const char *job;
    uint64_t assignment;
    enum tfe_task task;
    const char *const *labels; /* labels of the node */
    size_t n_labels;
    /* node: it leaves the pool after it has been idle for this long; 0: never */
    int64_t idle_exit_ms;
    uint32_t floor; /* node: it does not leave if fewer nodes than this would remain */
    bool is_warned; /* stays until the next such event, also while the node is disconnected */
    const struct placement_options *options;
    const char *pattern; /* pattern of job names; at most MSG_SCOPE_MAX bytes */
    uint32_t nodes;
    /* the job keeps its nodes until they are freed, or until the same event without this flag */
    bool keeps_nodes;
    /* Decisions wait for the next event without this flag, which must follow at once, so that
     * events of one moment are decided together. */
    bool is_more_to_come;
    /* How much the last added worker contributed, in thousandths of a whole worker; at most
     * 1000. */
    uint32_t gain_milli;
};

enum placement_action_type {
    PLACEMENT_ASSIGN,
    PLACEMENT_RELEASE,
    PLACEMENT_LEAVE, /* node: it has been idle and is to leave the pool */
    PLACEMENT_WAITS, /* job: the quota for which it waits has changed (see its view) */
};

/* Why a node is released. */
enum placement_reason {
    PLACEMENT_NO_REASON,
    PLACEMENT_TOO_MANY, /* the job's maximum is lower now */
    PLACEMENT_TAKEN,    /* taken for the minimum of a job of equal or higher priority */
    PLACEMENT_SUSPENDED,
    PLACEMENT_OVER,
    PLACEMENT_TOO_FEW,     /* the job lacks nodes of its minimum, and other jobs wait */
    PLACEMENT_UNKNOWN,     /* the node works for an unknown assignment */
    PLACEMENT_REMOVED,     /* the node is taken out of the pool */
    PLACEMENT_ABOVE_QUOTA, /* the job lacks nodes of its minimum, which exceeds a quota */
};

/* Texts are borrowed until the next step. An ASSIGN must be durable before it is sent. */
struct placement_action {
    enum placement_action_type type;
    const char *node;
    const char *job; /* name of the job, or "" if it is unknown */
    uint64_t assignment;
    enum tfe_task task;
    enum placement_reason reason;
};

struct placement_actions {
    const struct placement_action *v; /* owned by placement, valid until the next step */
    size_t n;
    struct tfe_mono deadline; /* when a TICK is due; TFE_MONO_NEVER if none is */
};

enum placement_job_state {
    PLACEMENT_JOB_QUEUED, /* the job lacks nodes of its minimum */
    PLACEMENT_JOB_PLACED, /* the job has its minimum, warned nodes included */
    PLACEMENT_JOB_SHORT,  /* the job had its minimum and has lost nodes of it */
    PLACEMENT_JOB_PAUSED, /* the job is suspended */
    PLACEMENT_JOB_IS_OVER,
};

struct placement_view {
    const char *job;
    enum placement_job_state state;
    struct tfe_mono since;
    uint32_t priority;
    uint32_t held[PLACEMENT_TASKS]; /* number of nodes per task, without warned ones */
    /* number of nodes missing from the minimum, beyond those that are free or becoming free */
    uint32_t lacks;
    uint32_t releasing;
    bool is_too_large; /* the whole pool, if it were free, would not be enough */
    /* The quota for which the job waits: its pattern (NULL if none), how many nodes its jobs may
     * have together, and how many of those are missing for this job (0: the job's minimum exceeds
     * the quota). */
    const char *quota;
    uint32_t quota_nodes, quota_lacks;
    uint32_t max_min; /* largest minimum that the job's quotas allow now */
};

/* Number of nodes that jobs matching a pattern may have together. */
struct placement_quota {
    const char *pattern; /* pattern of job names; NULL if there is no quota */
    uint32_t nodes;
};

/* The number of nodes that an active job wants for one task, within its quotas. */
struct placement_demand {
    const char *job;
    enum tfe_task task;
    uint32_t min, max, held;
};

/* Nodes with the same labels. */
struct placement_supply {
    const char *labels; /* n_bytes of sorted labels, each with its NUL */
    size_t n_bytes;
    /* number of connected nodes; number without work, including those reserved for a waiting job */
    uint32_t here, idle;
};

/* Creates a placement. mem is borrowed. Returns NULL if out of memory. */
struct placement *placement_new(const struct tfe_mem *mem, const struct placement_config *config,
                                uint64_t last_assignment);
void placement_free(struct placement *p);

/* Handles an event. After an error nothing has changed and there is no action. Returns TFE_EINVAL
 * if a value is invalid; TFE_ENOENT if the job, node or assignment does not exist; TFE_EEXIST if
 * the job exists and is not over, or the assignment exists; TFE_ESTATE if a job to be forgotten is
 * not over or has nodes; TFE_EFULL if there are too many sets of labels or quotas; TFE_ENOMEM. */
int placement_step(struct placement *p, const struct placement_event *event,
                   struct placement_actions *ret) TFE_MUST_CHECK;

size_t placement_jobs(const struct placement *p);
/* Fills *ret with the job at index `at` in order of priority and age. Precondition: at <
 * placement_jobs. */
void placement_job_view(const struct placement *p, size_t at, struct placement_view *ret);
/* Returns the smallest quota that matches a job name; the job need not exist. */
struct placement_quota placement_quota(const struct placement *p, const char *job);
/* Writes what the job at index `at` wants, a row per task, and returns the number of rows; 0 if the
 * job is suspended or over. */
size_t placement_demand(const struct placement *p, size_t at,
                        struct placement_demand ret[PLACEMENT_TASKS]);
/* Returns the next label that nodes of the job at index `at` must have for this task, or NULL after
 * the last. *cursor starts at 0. */
const char *placement_label(const struct placement *p, size_t at, enum tfe_task task,
                            size_t *cursor);
/* Returns true if nodes of this class may work for the job at index `at` as this task. */
bool placement_may_have(const struct placement *p, size_t at, enum tfe_task task, uint32_t class);
/* Fills *ret with the nodes of a class below PLACEMENT_CLASSES_MAX. Returns false if the class was
 * never used. */
bool placement_supply(const struct placement *p, uint32_t class, struct placement_supply *ret);

#endif
