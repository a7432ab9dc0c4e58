/* tests/unit/scheduler/oracle.h: oracle of churn.h: keeps accounts and checks that no rule of
 * placement.h is broken. A broken rule fails the test. */
#ifndef TFE_TESTS_UNIT_SCHEDULER_ORACLE_H
#define TFE_TESTS_UNIT_SCHEDULER_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/scheduler/placement.h"
#include "tests/unit/scheduler/churn.h"
#include "tests/unit/test_runner.h"

enum { AWAY, IDLE, BUSY, LEAVING };
enum { ANY, GPU_A, GPU_B, LABELS };
extern const char *const label_texts[LABELS];

/* Of all jobs, two teams, two kinds; a job is of one of each. */
enum { QUOTAS = 5 };
extern const char *const quota_patterns[QUOTAS];

struct node {
    int state;
    bool is_here;
    bool is_durable, is_told;
    bool is_warned; /* its machine will go */
    uint8_t label;  /* ANY: none */
    uint32_t job;
    enum tfe_task task;
    uint64_t assignment;
    int64_t due, dies;
};

struct job {
    bool is_there, is_over, is_suspended, preempt;
    uint8_t label; /* that its nodes must have */
    /* In this step. */
    bool was_given, was_taken, was_ended, gave_up;
    uint32_t given[LABELS], grown[LABELS]; /* nodes in all; those beyond its minimum */
    uint32_t priority, min[PLACEMENT_TASKS], max, held[PLACEMENT_TASKS];
    uint64_t age;
    int64_t due;
};

extern struct books {
    struct days days;
    struct days_told *told;
    struct placement *p;
    struct node nodes[DAYS_NODES_MAX];
    struct job jobs[DAYS_JOBS_MAX];
    struct {
        uint32_t nodes;      /* 0: there is none */
        uint32_t busy, used; /* with those that are leaving */
    } quotas[QUOTAS];
    /* In this step: jobs that got nodes; whether some were taken of others, or given up: who waited
     * for a quota before that is seen no more. */
    uint32_t given[DAYS_JOBS_MAX], n_given;
    bool is_one_taken;
    /* By label; ANY: those without one. */
    uint32_t n_here[LABELS], n_idle[LABELS], n_leaving[LABELS];
    uint32_t n_warned_leaving; /* of no use to anybody, but their share of a quota is */
    uint64_t highest;
    int64_t now;
} books;

/* The number of node n00007, or of a job. */
uint32_t number_of(const char *name);
void name_job(char ret[16], uint32_t j);
/* Whether it is to run, and has less than its minimum. */
bool waits(const struct job *job);

/* What becomes of a node, but for being assigned, is entered by this. */
void books_set(struct node *n, int state, bool is_here);
void books_warn(struct node *n, bool is_warned);

/* Says at which step of the seed what did not hold. */
#define JUDGE(holds, ...)                                                                          \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            judge_broken(#holds, __VA_ARGS__);                                                     \
        }                                                                                          \
    } while (0)
void __attribute__((format(printf, 2, 3))) judge_broken(const char *rule, const char *what, ...);

/* Of a step: each action, which is entered …; false: that release was said before. */
void judge_assign(const struct placement_action *a);
bool judge_release(const struct placement_action *a);
/* … then all that the step has come to. */
void judge_step(void);
/* … and of another one at once, where none was due before this and nobody is leaving: nothing
 * follows, for nobody who could be served waits while nothing is going to happen. */
void judge_rest(const struct placement_actions *again, struct tfe_mono due);

/* At the end, when nobody comes or goes any more. */
void judge_served(void);
void judge_orders(void);

#endif
