/* server/scheduler/placement.h: which node of the pool works for which submitted job. Pure: no I/O,
 * no clock; the same events give the same actions. The core of jobs and epochs (server/core) knows
 * nothing of it: an assigned node joins its job like one that was started by hand.
 *
 * Rules. Jobs stand in order of priority, then of age. In that order each gets what its tasks lack
 * of their minimum, all at once or nothing. A job that has to wait keeps hold of what it can use,
 * where the pool could ever be enough for it: nobody behind it overtakes it for good. For a minimum
 * (not to grow) workers above another job's minimum are taken, of the same priority or below, the
 * last in order first; all of a job of lower priority where the one that waits has preempt. What is
 * left grows jobs where one more worker helps most. Chief and ps take nodes with spot=false first,
 * workers and evaluators those without; a node that is told its labels later keeps what it has. A
 * node that was released is nobody's until it is freed, or its lease and fence are over. One that
 * nobody has a claim to for as long as it wished leaves, the longest idle first, where its floor of
 * nodes stays. One that was put out works for nothing more. One whose machine is warned is given to
 * nobody, and is no part of what there is, nor of what its job or a quota has, until that is
 * withdrawn: it keeps the work that it has, and its job gets another one in its place as any that
 * lacks one. Where it counts again, and its job has too many with that one, the newest goes. A job
 * that can still run with what is warned gives nothing up. A step that gave nodes while somebody
 * waits is followed by another, at once: with them others may be able to do without what that one
 * can use. Nobody who could be served waits while nothing is going to happen.
 *
 * Quotas. Jobs of a pattern have at most so many nodes together: those that work for them, but for
 * warned ones, and those that were released and have not left them yet. A job counts against each
 * pattern that is its. For its minimum it takes of the share of others of the pattern (of its own,
 * too: workers above its minimum) as it takes nodes, and nodes of whoever it may once it has its
 * share. Who waits for a share holds it, so that nobody of the pattern overtakes, and holds up
 * nobody else. A quota that is less than what jobs have takes nothing away; but who lacks some of a
 * minimum above it gives the rest up.
 */
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
#define PLACEMENT_LABEL_MAX 128u /* bytes of a K=V */
#define PLACEMENT_LABELS_MAX 34u /* of a node, or of a job */
/* A node with a label PLACEMENT_SCOPE PATTERN is for jobs of that pattern only. */
#define PLACEMENT_SCOPE "@jobs="
#define PLACEMENT_PRIORITY_MAX 1000u
/* Different sets of labels: for each, every job remembers what such nodes may do. */
#define PLACEMENT_CLASSES_MAX 64u
/* … of the nodes of one token for some jobs. */
#define PLACEMENT_CLASSES_OF_SCOPE 16u
/* Patterns whose jobs have a quota: for each, every job remembers whether it is of it. */
#define PLACEMENT_QUOTAS_MAX 64u
/* Nodes that one step gives to jobs beyond their minima; the rest comes with the next, at once. */
#define PLACEMENT_GROWTH_MAX 1024u

struct placement_config {
    /* A job that has lost nodes and lacks some of its minimum gives the others up after this long,
     * if another one waits, or it is above a quota. */
    int64_t gang_wait_ms;
};

/* A node must carry it to have one of these tasks: bit 1 << enum tfe_task. */
struct placement_label {
    uint8_t tasks;
    const char *text; /* K=V */
};

/* What a job wants of the pool. */
struct placement_wish {
    uint32_t priority;             /* more is earlier; at most PLACEMENT_PRIORITY_MAX */
    bool preempt;                  /* for its minimum it ends jobs of lower priority */
    bool is_suspended;             /* has no node meanwhile */
    uint32_t min[PLACEMENT_TASKS]; /* nodes; at least one in all */
    uint32_t max[PLACEMENT_TASKS]; /* above min for workers only */
    const struct placement_label *labels;
    size_t n_labels;
};

enum placement_event_type {
    PLACEMENT_NODE_CAME,     /* node, labels, assignment: what it works for, 0 nothing */
    PLACEMENT_NODE_TOLD,     /* node, labels: each in place of those with its key */
    PLACEMENT_NODE_LOST,     /* node: its connection is gone */
    PLACEMENT_NODE_GONE,     /* node: so are its lease and its fence */
    PLACEMENT_NODE_FREED,    /* node, assignment: nothing of it is left there */
    PLACEMENT_NODE_OUT,      /* node: somebody wants it to leave */
    PLACEMENT_NODE_WARNED,   /* node, is_warned: its machine will go, or will not after all */
    PLACEMENT_JOB_SUBMITTED, /* job, wish; again once it is over: another run, as new */
    PLACEMENT_JOB_CHANGED,   /* job, wish: scale, suspend, resume, another priority */
    PLACEMENT_JOB_TOLD,      /* job, gain_milli */
    PLACEMENT_JOB_OVER,      /* job, lets_run: ended, or cancelled */
    PLACEMENT_JOB_FORGOTTEN, /* job: over, and no node works for it any more */
    PLACEMENT_RESTORED, /* node, job, assignment, task: as it was before the server's restart */
    PLACEMENT_QUOTA,    /* pattern, nodes: what its jobs may have together; 0: any number */
    PLACEMENT_TICK,
};

struct placement_event {
    enum placement_event_type type;
    struct tfe_mono now;
    const char *node;
    const char *job;
    uint64_t assignment;
    enum tfe_task task;
    const char *const *labels; /* of a node */
    size_t n_labels;
    int64_t idle_exit_ms; /* of a node: it leaves once it has been idle for so long; 0: never … */
    uint32_t floor;       /* … nor where fewer nodes than that would be left */
    bool is_warned;       /* it stays so until something else is said, also while it is away */
    const struct placement_wish *wish;
    const char *pattern; /* of jobs; at most MSG_SCOPE_MAX */
    uint32_t nodes;
    bool lets_run; /* its nodes stay its own until they are freed, or it is over without this */
    /* Nothing is decided before a step without it, which is due at once: so that what comes
     * together is decided on together. */
    bool is_more_to_come;
    /* How much of a whole worker the last one that came brought, in thousandths, at most 1000. */
    uint32_t gain_milli;
};

enum placement_action_type {
    PLACEMENT_ASSIGN,
    PLACEMENT_RELEASE,
    PLACEMENT_LEAVE, /* node: it is idle, and is to leave */
    PLACEMENT_WAITS, /* job: whether, or how, a quota is why it waits has changed (its view) */
};

/* Why a node is released. */
enum placement_reason {
    PLACEMENT_NO_REASON,
    PLACEMENT_TOO_MANY, /* the job's maximum is smaller now */
    PLACEMENT_TAKEN,    /* for the minimum of a job that is earlier, or equal */
    PLACEMENT_SUSPENDED,
    PLACEMENT_OVER,
    PLACEMENT_TOO_FEW, /* the job lacks some of its minimum, and others wait */
    PLACEMENT_UNKNOWN, /* it works for something that nobody here knows */
    PLACEMENT_OUT,     /* somebody wants the node to leave */
    PLACEMENT_ABOVE,   /* the job lacks some of its minimum, which is above a quota */
};

/* Texts are borrowed until the next step. An ASSIGN is to be durable before it is sent. */
struct placement_action {
    enum placement_action_type type;
    const char *node;
    const char *job; /* "" where nobody knows it */
    uint64_t assignment;
    enum tfe_task task;
    enum placement_reason reason;
};

struct placement_actions {
    const struct placement_action *v; /* placement's own, until the next step */
    size_t n;
    struct tfe_mono deadline; /* a TICK is due then; TFE_MONO_NEVER none */
};

enum placement_job_state {
    PLACEMENT_JOB_QUEUED, /* lacks its minimum */
    PLACEMENT_JOB_PLACED, /* has it, if only with nodes that are warned */
    PLACEMENT_JOB_SHORT,  /* had it, and has lost some */
    PLACEMENT_JOB_PAUSED, /* suspended */
    PLACEMENT_JOB_IS_OVER,
};

struct placement_view {
    const char *job;
    enum placement_job_state state;
    struct tfe_mono since;
    uint32_t priority;
    uint32_t held[PLACEMENT_TASKS]; /* without those that are warned */
    uint32_t lacks; /* of its minimum, beyond what was free or on its way at its turn */
    uint32_t releasing;
    bool is_too_large; /* the whole pool, empty, would not be enough */
    /* What it waits for a share of: the pattern, NULL: nothing; how many nodes the jobs of it may
     * have together; how many of those it lacks. 0: its minimum is more than there are. */
    const char *quota;
    uint32_t quota_nodes, quota_lacks;
    uint32_t most; /* the largest minimum that its quotas leave it now */
};

/* How many nodes jobs of a pattern may have together. */
struct placement_quota {
    const char *pattern; /* NULL: there is none */
    uint32_t nodes;
};

/* The nodes that an active job wants for one task, within its quotas. */
struct placement_demand {
    const char *job;
    enum tfe_task task;
    uint32_t min, max, held;
};

/* Nodes with the same labels. */
struct placement_supply {
    const char *labels; /* n_bytes: each with its NUL, in order */
    size_t n_bytes;
    uint32_t here, idle; /* with a connection; without work, also those that are kept for a gang */
};

/* mem is borrowed. NULL: out of memory. */
struct placement *placement_new(const struct tfe_mem *mem, const struct placement_config *config,
                                uint64_t last_assignment);
void placement_free(struct placement *p);

/* Takes an event in. All or nothing: on an error nothing has changed and there is no action.
 * TFE_EINVAL: not a legal value; TFE_ENOENT: no such job, node or assignment; TFE_EEXIST: the job
 * is there and not over, or the assignment is; TFE_ESTATE: a job that is not over, or has nodes, is
 * not forgotten; TFE_EFULL: too many different sets of labels, or quotas; TFE_ENOMEM. */
int placement_step(struct placement *p, const struct placement_event *event,
                   struct placement_actions *ret) TFE_MUST_CHECK;

size_t placement_jobs(const struct placement *p);
size_t placement_nodes(const struct placement *p);
/* The job that is at-th in order. Precondition: at < placement_jobs. */
void placement_job_view(const struct placement *p, size_t at, struct placement_view *ret);
/* The smallest quota of a job of this name, which need not be there. */
struct placement_quota placement_quota(const struct placement *p, const char *job);
/* Writes what the at-th job in order wants, a row per task, and returns the number of rows; 0 if
 * the job is suspended or over. */
size_t placement_demand(const struct placement *p, size_t at,
                        struct placement_demand ret[PLACEMENT_TASKS]);
/* Returns the next label that nodes of the at-th job must carry for this task, or NULL after the
 * last. *cursor starts at 0. */
const char *placement_label(const struct placement *p, size_t at, enum tfe_task task,
                            size_t *cursor);
/* True if nodes of this class may work for the at-th job as this task. */
bool placement_may_have(const struct placement *p, size_t at, enum tfe_task task, uint32_t class);
/* The nodes of a class below PLACEMENT_CLASSES_MAX. False: there never were any. */
bool placement_supply(const struct placement *p, uint32_t class, struct placement_supply *ret);

#endif
