/* tests/sim/world.h: virtual time: one heap of events, one random source, counted memory, the
 * trace. */
#ifndef TFE_TESTS_SIM_WORLD_H
#define TFE_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "tests/sim/clock.h"

struct world;
struct sim_event;
typedef void sim_event_fn(struct world *w, const struct sim_event *event);

/* What happens at a time; among equals, in the order of their making. who, tag and arg are the
 * handler's: mostly an index, the generation it was meant for, and a number. */
struct sim_event {
    int64_t at;
    uint64_t seq;
    sim_event_fn *fn;
    uint32_t who;
    uint32_t tag;
    uint64_t arg;
};

/* A deadline that moves often: at most one entry in the heap is looked at, and it is put off
 * instead of being taken out. Initialise with TIMER_UNSET. */
struct sim_timer {
    int64_t due;
    int64_t queued;
};
#define TIMER_UNSET ((struct sim_timer){.due = SIM_NEVER, .queued = SIM_NEVER})

/* Memory of one core: counted, bounded, and made to fail. */
struct sim_mem {
    struct tfe_mem mem; /* what the core is handed */
    struct world *world;
    size_t bytes;
    size_t limit;     /* above it: an invariant is broken */
    uint64_t fail_in; /* 0: never; 1: the next allocation fails, once */
    const char *owner;
};

#define TRACE_LINES 64
#define TRACE_LINE_MAX 200

struct sim_options {
    uint64_t seed;
    bool wire;   /* frames are sealed and opened with keys of their own per connection */
    bool pieces; /* … and come in pieces, as segments end where they do */
    bool deaths; /* guards have death certificates */
    bool verbose;
};

struct world {
    struct sim_options options;
    int64_t now;
    uint64_t events;      /* core steps: of messages, timers and reports */
    uint64_t event_limit; /* the run ends there; 0: none */
    uint64_t hash;        /* over everything that happened */
    struct rng rng;

    struct sim_event *heap;
    size_t n_heap;
    size_t cap_heap;
    uint64_t seq;
    uint64_t first_seq; /* below all of seq: of what goes before */
    uint64_t
        idle_turns; /* handled at the same moment, to notice a loop that never lets time pass */

    char lines[TRACE_LINES][TRACE_LINE_MAX];
    uint64_t n_lines;
    void (*on_line)(void *ctx, const char *line); /* NULL: only the last lines are kept */
    void *on_line_ctx;
    bool (*is_hidden)(void *ctx, const char *what); /* from on_line */

    bool has_twins; /* there have been two processes of one id */

    struct check *check;
    struct judge *judge;
    struct net *net;
    struct server *server;
    struct disk *disk;
    struct node *nodes;
    uint32_t n_nodes;
    struct names *node_names;
    struct jobs *jobs;
    struct clusters *clusters;
    struct faults *faults;
    struct probing *probing;
    bool stop;
};

int world_init(struct world *w, const struct sim_options *options);
void world_done(struct world *w);

/* at below now counts as now. A simulation that itself runs out of memory ends the process. */
void world_at(struct world *w, int64_t at, sim_event_fn *fn, uint32_t who, uint32_t tag,
              uint64_t arg);
/* Again, later: for receivers that cannot take an event at present. */
void world_again(struct world *w, const struct sim_event *event, int64_t at);
/* Again, now, before whatever else this moment brings: for what has waited. */
void world_first(struct world *w, const struct sim_event *event);

/* Handles events until the time (inclusive), the limit, or a violation. Whether the time was
 * reached. */
bool world_run(struct world *w, int64_t until);

void timer_set(struct world *w, struct sim_timer *timer, sim_event_fn *fn, uint32_t who,
               int64_t due);
/* First line of a timer's handler: whether it is really due. It is unset then. */
bool timer_is_due(struct world *w, struct sim_timer *timer, const struct sim_event *event);

/* One line: when, who, what, details. */
__attribute__((format(printf, 4, 5))) void world_trace(struct world *w, const char *who,
                                                       const char *what, const char *format, ...);

/* A value from the seed and these alone: does not shift when other things happen more or less
 * often. */
uint64_t world_draw(const struct world *w, uint64_t a, uint64_t b, uint64_t c);

void mem_init(struct sim_mem *mem, struct world *w, const char *owner, size_t limit);

/* Never NULL. Zeroed. */
void *sim_alloc(size_t count, size_t size);
/* Room for one more in an array of cap; the new room is not zeroed. */
void *sim_grow(void *array, size_t n, size_t *cap, size_t size);

#endif
