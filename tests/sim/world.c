/* tests/sim/world.c: a simulation in virtual time: one heap of events, one random source, counted
 * memory, the trace. */
#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"

/* Maximum number of events at one moment of virtual time; more than any storm causes. */
#define IDLE_TURNS_MAX 5000000
#define HASH_PRIME UINT64_C(0x100000001b3)
/* More than the number of events of any run. */
#define SEQ_FIRST (UINT64_C(1) << 40)

int world_init(struct world *w, const struct sim_options *options)
{
    memset(w, 0, sizeof(*w));
    w->options = *options;
    w->hash = UINT64_C(0xcbf29ce484222325);
    w->seq = SEQ_FIRST;
    rng_init(&w->rng, options->seed);
    return 0;
}

void world_done(struct world *w)
{
    free(w->heap);
    w->heap = NULL;
}

void *sim_alloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p) {
        fputs("sim: out of memory\n", stderr);
        exit(3);
    }
    return p;
}

void *sim_grow(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) {
        return array;
    }
    *cap = *cap ? *cap * 2 : 16;
    array = realloc(array, *cap * size);
    if (!array) {
        fputs("sim: out of memory\n", stderr);
        exit(3);
    }
    return array;
}

/* --- the heap --- */

static bool is_earlier(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void push(struct world *w, const struct sim_event *event)
{
    w->heap = sim_grow(w->heap, w->n_heap, &w->cap_heap, sizeof(*w->heap));
    size_t i = w->n_heap++;
    while (i > 0) {
        size_t up = (i - 1) / 2;
        if (!is_earlier(event, &w->heap[up])) {
            break;
        }
        w->heap[i] = w->heap[up];
        i = up;
    }
    w->heap[i] = *event;
}

static struct sim_event pop(struct world *w)
{
    struct sim_event first = w->heap[0];
    struct sim_event last = w->heap[--w->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->n_heap) {
            break;
        }
        if (child + 1 < w->n_heap && is_earlier(&w->heap[child + 1], &w->heap[child])) {
            child++;
        }
        if (!is_earlier(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return first;
}

void world_at(struct world *w, int64_t at, sim_event_fn *fn, uint32_t who, uint32_t tag,
              uint64_t arg)
{
    push(w, &(struct sim_event){.at = at < w->now ? w->now : at,
                                .seq = w->seq++,
                                .fn = fn,
                                .who = who,
                                .tag = tag,
                                .arg = arg});
}

void world_again(struct world *w, const struct sim_event *event, int64_t at)
{
    world_at(w, at, event->fn, event->who, event->tag, event->arg);
}

void world_first(struct world *w, const struct sim_event *event)
{
    struct sim_event again = *event;
    again.at = w->now;
    again.seq = w->first_seq++;
    push(w, &again);
}

static void mix(struct world *w, uint64_t value)
{
    w->hash = (w->hash ^ value) * HASH_PRIME;
}

bool world_run(struct world *w, int64_t until)
{
    while (!w->stop && !check_failed(w->check)) {
        if (w->n_heap == 0 || w->heap[0].at > until) {
            w->now = until;
            return true;
        }
        if (w->event_limit && w->events >= w->event_limit) {
            return false;
        }
        struct sim_event event = pop(w);
        w->idle_turns = event.at > w->now ? 0 : w->idle_turns + 1;
        w->now = event.at;
        mix(w, (uint64_t)event.at);
        mix(w, (uint64_t)event.who << 32 ^ event.tag ^ event.arg);
        if (w->idle_turns > IDLE_TURNS_MAX) {
            check_fail(w->check, CHECK_ENDLESS_LOOP, "events without end at one point in time");
            break;
        }
        event.fn(w, &event);
    }
    return false;
}

void timer_set(struct world *w, struct sim_timer *timer, sim_event_fn *fn, uint32_t who,
               int64_t due)
{
    timer->due = due == SIM_NEVER || due > w->now ? due : w->now;
    if (timer->due < timer->queued) {
        timer->queued = timer->due;
        world_at(w, timer->due, fn, who, 0, 0);
    }
}

bool timer_is_due(struct world *w, struct sim_timer *timer, const struct sim_event *event)
{
    if (event->at != timer->queued) {
        return false;
    }
    timer->queued = SIM_NEVER;
    if (timer->due > w->now) {
        if (timer->due != SIM_NEVER) {
            timer->queued = timer->due;
            world_again(w, event, timer->due);
        }
        return false;
    }
    timer->due = SIM_NEVER;
    return true;
}

/* --- the trace --- */

void world_trace(struct world *w, const char *who, const char *what, const char *format, ...)
{
    char *line = w->lines[w->n_lines++ % TRACE_LINES];
    int n = snprintf(line, TRACE_LINE_MAX, "%lld.%03lld %s %s", (long long)(w->now / 1000),
                     (long long)(w->now % 1000), who, what);
    if (format[0] && n > 0 && n < TRACE_LINE_MAX - 1) {
        line[n++] = ' ';
        va_list args;
        va_start(args, format);
        vsnprintf(line + n, (size_t)(TRACE_LINE_MAX - n), format, args);
        va_end(args);
    }
    for (size_t end = strlen(line); end > 0 && line[end - 1] == ' '; end--) {
        line[end - 1] = '\0';
    }
    for (char *c = line; *c; c++) {
        if (*c == '\n') {
            *c = '|';
        }
        mix(w, (uint64_t)(unsigned char)*c);
    }
    if (w->options.verbose) {
        printf("%s\n", line);
    }
    if (w->on_line && !(w->is_hidden && w->is_hidden(w->on_line_ctx, what))) {
        w->on_line(w->on_line_ctx, line);
    }
}

uint64_t world_draw(const struct world *w, uint64_t a, uint64_t b, uint64_t c)
{
    struct rng rng;
    rng_init(&rng, w->options.seed ^ (a * UINT64_C(0x9e3779b97f4a7c15)) ^
                       (b * UINT64_C(0xc2b2ae3d27d4eb4f)) ^ (c * UINT64_C(0x165667b19e3779f9)));
    (void)rng_next(&rng);
    return rng_next(&rng);
}

/* --- memory --- */

/* Header of each block; keeps malloc's alignment. */
struct block {
    size_t n;
    size_t unused;
};

static void *resize(void *ctx, void *p, size_t n)
{
    struct sim_mem *mem = ctx;
    struct block *block = p ? (struct block *)p - 1 : NULL;
    size_t had = block ? block->n : 0;
    if (n == 0) {
        mem->bytes -= had;
        free(block);
        return NULL;
    }
    if (mem->fail_in && --mem->fail_in == 0) {
        world_trace(mem->world, mem->owner, "nomem", "%s", "");
        return NULL;
    }
    block = realloc(block, sizeof(*block) + n);
    if (!block) {
        return NULL;
    }
    block->n = n;
    mem->bytes += n - had;
    check_memory(mem->world->check, mem->owner, mem->bytes, mem->limit);
    return block + 1;
}

void mem_init(struct sim_mem *mem, struct world *w, const char *owner, size_t limit)
{
    *mem = (struct sim_mem){
        .mem = {.resize = resize, .ctx = mem}, .world = w, .limit = limit, .owner = owner};
}
