/* tests/sim/world.h: a simulation in virtual time: one heap of events, one random source, counted
 * memory, the trace. */
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

/* An event at a time; events of the same time are handled in the order in which they were added.
 * who, tag and arg belong to the handler: usually an index, a generation and a number. */
struct sim_event {
    int64_t at;
    uint64_t seq;
    sim_event_fn *fn;
    uint32_t who;
    uint32_t tag;
    uint64_t arg;
};

/* A deadline that moves often: at most one entry is in the heap, and it is postponed instead of
 * being removed. Initialise with TIMER_UNSET. */
struct sim_timer {
    int64_t due;
    int64_t queued;
};
#define TIMER_UNSET ((struct sim_timer){.due = SIM_NEVER, .queued = SIM_NEVER})

/* Memory of one core: counted, limited, and made to fail. */
struct sim_mem {
    struct tfe_mem mem; /* allocator passed to the core */
    struct world *world;
    size_t bytes;
    size_t limit;     /* above this limit an invariant is broken */
    uint64_t fail_in; /* 0: never; 1: the next allocation fails, once */
    const char *owner;
};

#define TRACE_LINES 64
#define TRACE_LINE_MAX 200

struct sim_options {
    uint64_t seed;
    bool wire;   /* frames are sealed and opened with keys of their own per connection */
    bool pieces; /* frames arrive in pieces, as TCP segments do */
    bool deaths; /* guards have proofs of termination */
    bool verbose;
};

struct world {
    struct sim_options options;
    int64_t now;
    uint64_t events;      /* number of steps of the cores: messages, timers and reports */
    uint64_t event_limit; /* the simulation ends after this many events; 0: no limit */
    uint64_t hash;        /* hash over everything that has happened */
    struct rng rng;

    struct sim_event *heap;
    size_t n_heap;
    size_t cap_heap;
    uint64_t seq;
    uint64_t first_seq; /* sequence number of events that must come before all others; decreases */
    /* number of events handled at the same moment, to detect a loop in which no time passes */
    uint64_t idle_turns;

    char lines[TRACE_LINES][TRACE_LINE_MAX];
    uint64_t n_lines;
    /* called for each line of the trace; NULL: only the last lines are stored */
    void (*on_line)(void *ctx, const char *line);
    void *on_line_ctx;
    /* used with on_line: returns true if the line is not wanted */
    bool (*is_hidden)(void *ctx, const char *what);

    bool has_twins; /* there have been two processes with one id */

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

/* Schedules an event; a time in the past counts as now. A simulation that runs out of memory itself
 * ends the process. */
void world_at(struct world *w, int64_t at, sim_event_fn *fn, uint32_t who, uint32_t tag,
              uint64_t arg);
/* Schedules the event again for later, for receivers that cannot handle it at present. */
void world_again(struct world *w, const struct sim_event *event, int64_t at);
/* Schedules the event again for now, before all others, for events that have waited. */
void world_first(struct world *w, const struct sim_event *event);

/* Handles events until the time (inclusive), the limit, or a violation. Returns true if the time
 * was reached. */
bool world_run(struct world *w, int64_t until);

void timer_set(struct world *w, struct sim_timer *timer, sim_event_fn *fn, uint32_t who,
               int64_t due);
/* To be called first by a timer's handler: returns true if the timer is due, and unsets it then. */
bool timer_is_due(struct world *w, struct sim_timer *timer, const struct sim_event *event);

/* Writes one line: time, subject, event, details. */
__attribute__((format(printf, 4, 5))) void world_trace(struct world *w, const char *who,
                                                       const char *what, const char *format, ...);

/* Returns a random value of the seed and these arguments alone, independent of all other draws. */
uint64_t world_draw(const struct world *w, uint64_t a, uint64_t b, uint64_t c);

void mem_init(struct sim_mem *mem, struct world *w, const char *owner, size_t limit);

/* Allocates zeroed memory. Never returns NULL. */
void *sim_alloc(size_t count, size_t size);
/* Grows an array of capacity cap by at least one element, which is not zeroed. */
void *sim_grow(void *array, size_t n, size_t *cap, size_t size);

#endif
