/* tests/unit/scheduler/manual_pool.h: a pool by hand: its nodes and jobs do what the story says,
 * and who has which node is written down, from placement's actions alone. */
#ifndef TFE_TESTS_UNIT_SCHEDULER_MANUAL_POOL_H
#define TFE_TESTS_UNIT_SCHEDULER_MANUAL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/scheduler/placement.h"
#include "tests/unit/test_runner.h"

enum { HAND_POOL_MANY = 64 };

/* A pool whose nodes do what they are told, when the story says so. */
extern struct pool {
    struct tfe_mem mem;
    unsigned fail_in; /* 0: never */
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
} pool;

int hand_pool_begin(void **state);
int hand_pool_end(void **state);
#define FIXTURE hand_pool_begin, hand_pool_end

/* --- what happens: but for step, what placement refuses fails the story ----------------------- */

/* What placement answers. */
int step(struct placement_event event);
/* A node comes, with this label (NULL: none). */
void came(const char *node, const char *label);
/* n nodes come, without labels: n00 is the one of the number 0. */
void come(unsigned from, unsigned n);
void about(enum placement_event_type type, const char *node, const char *job);
void warned(const char *node, bool is_warned);
/* What is held at this place is so no more; placement is told … */
void freed(size_t at);
/* … and is not told. */
void forget(size_t at);
/* All that were released are freed. */
void free_released(void);

struct placement_options workers(uint32_t min, uint32_t max, uint32_t priority);
void submit(const char *job, struct placement_options w);
void change(const char *job, struct placement_options w);

/* --- what is seen of it ----------------------------------------------------------------------- */

/* Where in held it is; n_held: nowhere. */
size_t find(uint64_t assignment);
/* Nodes that work for a job and were not asked to leave. */
unsigned has(const char *job);
bool is_of(const char *job, const char *node);
/* Nodes that were asked to, of all jobs. */
unsigned leaving(void);
struct placement_view view(const char *job);

#endif
