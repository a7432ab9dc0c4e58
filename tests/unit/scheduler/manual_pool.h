/* tests/unit/scheduler/manual_pool.h: a pool whose nodes and jobs a test controls. It records which
 * job has which node, from placement's actions alone. */
#ifndef TFE_TESTS_UNIT_SCHEDULER_MANUAL_POOL_H
#define TFE_TESTS_UNIT_SCHEDULER_MANUAL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/scheduler/placement.h"
#include "tests/unit/base/flaky.h"
#include "tests/unit/test_runner.h"

enum { HAND_POOL_MANY = 64 };

/* A pool whose nodes do what they are told, when the test says so. */
extern struct pool {
    struct flaky flaky;
    struct tfe_mem mem;
    struct placement *p;
    struct placement_actions last;
    int64_t now;
    struct {
        char node[16];
        char job[16];
        uint64_t assignment;
        enum tfe_task task;
        bool is_leaving;
    } held[HAND_POOL_MANY];
    size_t n_held;
    unsigned n_come; /* number of nodes that come_more has connected */
    char waits[64];  /* jobs that began or ceased to wait for a share, by PLACEMENT_WAITS */
} pool;

int hand_pool_begin(void **state);
int hand_pool_end(void **state);
#define FIXTURE hand_pool_begin, hand_pool_end

/* --- events: except for step, an event that placement refuses fails the test
 * ------------------- */

/* Passes an event to placement and returns its result. */
int step(struct placement_event event);
/* A node connects, with this label (NULL: none). */
void came(const char *node, const char *label);
/* n nodes without labels connect; n00 is the one with number 0. */
void come(unsigned from, unsigned n);
/* n more nodes connect, with this label (NULL: none). */
void come_more(unsigned n, const char *label);
void about(enum placement_event_type type, const char *node, const char *job);
void warned(const char *node, bool is_warned);
/* The assignment at this index has ended, and placement is told. */
void freed(size_t at);
/* The assignment at this index has ended, and placement is not told. */
void forget(size_t at);
/* All released nodes are freed. */
void free_released(void);

struct placement_options workers(uint32_t min, uint32_t max, uint32_t priority);
/* The same options for nodes with this label, which must outlive them. */
struct placement_options on(const char *label, struct placement_options w);
void submit(const char *job, struct placement_options w);
void change(const char *job, struct placement_options w);
void over(const char *job);
void quota(const char *pattern, uint32_t nodes);

/* --- observations ----------------------------------------------------------------------------- */

/* Returns the index in held of the assignment, or n_held. */
size_t find(uint64_t assignment);
/* Returns the number of nodes that work for the job and were not released. */
unsigned has(const char *job);
bool is_of(const char *job, const char *node);
/* Returns true if the node was released and is not free yet. */
bool is_leaving(const char *node);
/* Returns the number of released nodes of all jobs. */
unsigned leaving(void);
struct placement_view view(const char *job);

#endif
