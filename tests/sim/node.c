/* tests/sim/node.c: a simulated worker machine: clocks, freezing and thawing, and the guard's work.
 * The I/O layer of the agent's core is in node_agent.c. */
#include "tests/sim/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/proof_condition.h"
#include "tests/sim/check.h"
#include "tests/sim/jobs.h"
#include "tests/sim/net.h"
#include "tests/sim/node_agent.h"
#include "tests/sim/script.h"

/* Maximum time from the fence until the last trainer is reaped: the guard's reaction and the
 * kernel's work. */
#define FENCE_GRACE_MS 500
/* Time until the agent notices its guard's end and starts another one. */
#define GUARD_AGAIN_MS 5
/* Time until the guard notices the agent's end, or reports a trainer's end. */
#define GUARD_TURN_MS 1
/* Interval for checking whether the trainers of an earlier process are gone. */
#define START_LOOK_MS 100

void nodes_new(struct world *w, uint32_t n)
{
    w->nodes = sim_alloc(n, sizeof(*w->nodes));
    w->node_names = sim_alloc(1, sizeof(*w->node_names));
    w->n_nodes = n;
    for (uint32_t i = 0; i < n; i++) {
        struct node *node = &w->nodes[i];
        node->index = i;
        node->job = node->parted_from = node->taken_by = NAMES_NONE;
        node->on = true;
        node->clock = (struct sim_clock){.own_ms = 1000 + (int64_t)i, .ppm = 1000000};
        node->timer = TIMER_UNSET;
        node->fence_timer = TIMER_UNSET;
        node->fence_check = TIMER_UNSET;
        node->fence = TFE_MONO_NEVER;
        node->deadline = TFE_MONO_NEVER;
    }
}

void node_name(struct world *w, uint32_t node, const char *name)
{
    snprintf(w->nodes[node].name, sizeof(w->nodes[node].name), "%s", name);
    names_add(w->node_names, w->nodes[node].name, node);
}

void nodes_free(struct world *w)
{
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        agent_free(w->nodes[i].core);
        free(w->nodes[i].backlog);
        free(w->nodes[i].trainers);
    }
    names_done(w->node_names);
    free(w->node_names);
    free(w->nodes);
    w->nodes = NULL;
}

uint32_t node_find(const struct world *w, const char *name)
{
    return names_find(w->node_names, name, strlen(name));
}

/* Iterates over the machines with a process of this id: two if a machine image contains the id. */
static uint32_t next_of_id(const struct world *w, const char *id, uint32_t node)
{
    while (node < w->n_nodes && strcmp(w->nodes[node].id, id) != 0) {
        node++;
    }
    return node;
}

/* An id is the machine's name, and from the second process on a dot and its number. */
static uint32_t first_of_id(const struct world *w, const char *id)
{
    const char *dot = strrchr(id, '.');
    uint32_t node = names_find(w->node_names, id, dot ? (size_t)(dot - id) : strlen(id));
    bool is_there = node != NAMES_NONE && strcmp(w->nodes[node].id, id) == 0;
    return w->has_twins || !is_there ? next_of_id(w, id, 0) : node;
}

/* returns w->n_nodes after the last one */
static uint32_t following_of_id(const struct world *w, const char *id, uint32_t node)
{
    return w->has_twins ? next_of_id(w, id, node + 1) : w->n_nodes;
}

uint32_t node_find_process(const struct world *w, const char *id)
{
    uint32_t newest = NAMES_NONE;
    for (uint32_t node = first_of_id(w, id); node < w->n_nodes;
         node = following_of_id(w, id, node)) {
        uint64_t heard = w->nodes[node].heard;
        if (heard > (newest == NAMES_NONE ? 0 : w->nodes[newest].heard)) {
            newest = node;
        }
    }
    return newest != NAMES_NONE && w->nodes[newest].agent ? newest : NAMES_NONE;
}

void node_heard(struct world *w, uint32_t node)
{
    w->nodes[node].heard = w->events;
}

uint32_t node_job(const struct world *w, uint32_t node)
{
    return w->nodes[node].job;
}

struct tfe_mono node_clock(const struct world *w, uint32_t node)
{
    return clock_read(&w->nodes[node].clock, w->now);
}

static bool machine_runs(const struct node *node)
{
    return node->on && !node->suspended;
}

void node_check_dead(struct world *w, uint32_t job, uint64_t epoch, const char *id)
{
    for (uint32_t node = first_of_id(w, id); node < w->n_nodes;
         node = following_of_id(w, id, node)) {
        if (w->nodes[node].heard) { /* otherwise the trainers there belong to an earlier process */
            check_dead(w->check, job, epoch, node);
        }
    }
}

bool node_can_run(const struct world *w, uint32_t node)
{
    const struct node *n = &w->nodes[node];
    return machine_runs(n) && n->agent && !n->frozen;
}

/* Returns true if another process with this id exists: one of them will be told that it was
 * replaced. */
static bool has_twin(const struct world *w, uint32_t node)
{
    const char *id = w->nodes[node].id;
    uint32_t first = w->has_twins ? next_of_id(w, id, 0) : node;
    return first != node || (w->has_twins && next_of_id(w, id, node + 1) < w->n_nodes);
}

bool node_is_sound(struct world *w, uint32_t node)
{
    const struct node *n = &w->nodes[node];
    const struct link *link = net_link(w, node);
    return node_can_run(w, node) && !has_twin(w, node) && n->guard && !n->peers_cut &&
           n->parted_from == NAMES_NONE && n->mem.fail_in == 0 && n->kill_stuck_until <= w->now &&
           !link->stalled && !link->cut_up && !link->cut_down && !link->deafens;
}

bool node_is_well(struct world *w, uint32_t node)
{
    return node_is_sound(w, node) && net_is_connected(w, node);
}

/* --- waiting events --- */

void node_wait(struct node *n, const struct sim_event *event)
{
    n->backlog = sim_grow(n->backlog, n->n_backlog, &n->cap_backlog, sizeof(*n->backlog));
    n->backlog[n->n_backlog++] = *event;
}

bool node_defers(struct world *w, uint32_t node, const struct sim_event *event)
{
    struct node *n = &w->nodes[node];
    if (machine_runs(n)) {
        return false;
    }
    if (n->on) {
        node_wait(n, event);
    }
    return true;
}

static void arm_fence(struct world *w, struct node *n);
static void on_fence(struct world *w, const struct sim_event *event);
static void on_fence_check(struct world *w, const struct sim_event *event);

/* The machine runs again, or at another rate: sets timers by its clock and delivers what has
 * waited. */
static void go_on(struct world *w, struct node *n)
{
    size_t waited = n->n_backlog;
    n->n_backlog = 0;
    for (size_t i = 0; i < waited; i++) {
        world_first(w, &n->backlog[i]); /* a guard's reports arrive in order, on one pipe */
    }
    node_agent_arm(w, n);
    arm_fence(w, n);
    node_check_fence(w, n);
    net_kick(w, n->index);
}

static void look_at_trainers(struct world *w, struct node *n)
{
    for (uint32_t local = 0; local < n->cap_trainers; local++) {
        trainer_look(w, n, local);
    }
}

/* --- the guard --- */

void node_kill_trainers(struct world *w, struct node *n)
{
    for (uint32_t local = 0; local < n->cap_trainers; local++) {
        trainer_kill(w, n, local);
    }
}

static void arm_fence(struct world *w, struct node *n)
{
    timer_set(w, &n->fence_timer, on_fence, n->index,
              n->guard ? clock_when(&n->clock, n->fence) : SIM_NEVER);
}

void node_set_fence(struct world *w, struct node *n, struct tfe_mono fence)
{
    check_fence_set(w->check, n->index, fence.ms);
    n->fence = fence;
    n->fence_passed = false;
    arm_fence(w, n);
}

static void on_fence(struct world *w, const struct sim_event *event)
{
    struct node *n = &w->nodes[event->who];
    if (!timer_is_due(w, &n->fence_timer, event) || !n->guard || !machine_runs(n)) {
        return; /* go_on sets the timer again */
    }
    if (tfe_mono_before(node_clock(w, n->index), n->fence)) {
        arm_fence(w, n);
        return;
    }
    n->fence = TFE_MONO_NEVER;
    n->fence_passed = true;
    if (n->n_alive > 0) {
        world_trace(w, n->name, "fence", "e%llu", (unsigned long long)n->epoch);
    }
    node_kill_trainers(w, n);
    node_agent_later(w, n, GUARD_TURN_MS, (struct node_report){.type = AGENT_FENCED});
}

/* Checks that no trainer is left once the fence has passed by this much time. */
void node_check_fence(struct world *w, struct node *n)
{
    int64_t end = check_fence_end(w->check, n->index);
    timer_set(w, &n->fence_check, on_fence_check, n->index,
              end == INT64_MIN ? SIM_NEVER
                               : clock_when(&n->clock, (struct tfe_mono){end + FENCE_GRACE_MS}));
}

static void on_fence_check(struct world *w, const struct sim_event *event)
{
    struct node *n = &w->nodes[event->who];
    if (!timer_is_due(w, &n->fence_check, event) || !machine_runs(n)) {
        return;
    }
    int64_t end = check_fence_end(w->check, n->index);
    if (end == INT64_MIN) {
        return;
    }
    if (node_clock(w, n->index).ms < end + FENCE_GRACE_MS) {
        node_check_fence(w, n);
        return;
    }
    int64_t ready = n->runs_since + FENCE_GRACE_MS;
    if (w->now < ready) {
        timer_set(w, &n->fence_check, on_fence_check, n->index, ready);
        return;
    }
    const uint32_t alive = trainers_not_killed(n);
    if (alive) {
        check_fail(w->check, CHECK_FENCE_ENFORCED, "%u trainers of node %u run past its fence",
                   alive, n->index);
    }
}

static void on_guard_again(struct world *w, const struct sim_event *event)
{
    struct node *n = &w->nodes[event->who];
    if (n->guard || event->tag != n->process || !n->agent) {
        return;
    }
    if (!node_can_run(w, event->who)) {
        node_wait(n, event);
        return;
    }
    n->guard = true;
    n->n_guards++;
    n->guard_pid++;
    node_agent_event(w, n, &(struct agent_event){.type = AGENT_GUARD_LOST});
    if (n->agent) {
        arm_fence(w, n);
        node_agent_event(w, n,
                         &(struct agent_event){.type = AGENT_GUARD, .guard_pid = n->guard_pid});
    }
}

/* The agent was killed. If its guard had been killed before, the agent may have started another
 * guard, which finds no process below itself. */
static void bury(struct world *w, struct node *n)
{
    const struct proof_condition condition = {.is_first = n->buries && n->n_guards == 1,
                                              .agent_is_gone = !n->agent,
                                              .is_childless = !n->buries || n->n_alive == 0};
    if (!w->options.deaths || n->over || tfe_mono_is_never(n->fence) ||
        strcmp(n->left, n->death) == 0 || !agent_proof_is_allowed(&condition)) {
        return;
    }
    world_trace(w, n->name, "certificate", "%s", n->id);
    if (n->n_alive > 0) {
        check_fail(w->check, CHECK_DEATH_PROOF,
                   "node %u has a proof of termination although %u trainers run on it", n->index,
                   n->n_alive);
    }
    memcpy(n->left, n->death, sizeof(n->left));
    n->left_job = n->job;
    n->left_fence = n->fence;
}

static void guard_end(struct world *w, struct node *n)
{
    if (n->buries) {
        bury(w, n);
    }
    if (n->n_alive > 0) {
        return; /* the guard, or its successor, waits for the last trainer */
    }
    if (!n->guard && n->agent) {
        world_at(w, w->now + GUARD_AGAIN_MS, on_guard_again, n->index, n->process, 0);
    } else if (n->sweeping) {
        n->sweeping = false;
        node_agent_later(w, n, GUARD_TURN_MS, (struct node_report){.type = AGENT_SWEPT});
    }
}

void node_kill_guard(struct world *w, uint32_t node)
{
    struct node *n = &w->nodes[node];
    n->buries = false;
    if (!n->on || !n->guard) {
        return;
    }
    n->guard = false;
    n->sweeping = false;
    node_kill_trainers(w, n); /* PDEATHSIG */
    guard_end(w, n);
}

void node_sweep(struct world *w, struct node *n, uint32_t grace_ms, bool in_memory)
{
    if (!n->guard) {
        return; /* its end triggers the cleanup */
    }
    n->sweeping = true;
    if (grace_ms) {
        script_stop(w, n, grace_ms, in_memory);
    } else {
        node_kill_trainers(w, n);
    }
    guard_end(w, n);
}

static void on_agent_gone(struct world *w, const struct sim_event *event)
{
    struct node *n = &w->nodes[event->who];
    if (node_defers(w, event->who, event)) {
        return;
    }
    if (!n->agent) {
        n->buries = n->guard;
        n->guard = false;
        node_kill_trainers(w, n);
        bury(w, n);
    }
}

/* The guard's pipe has closed: it kills everything and ends. */
void node_guard_orphaned(struct world *w, struct node *n)
{
    n->sweeping = false;
    world_at(w, w->now + GUARD_TURN_MS, on_agent_gone, n->index, n->process, 0);
}

/* --- trainers --- */

void node_trainer_up(struct world *w, uint32_t node)
{
    struct node *n = &w->nodes[node];
    if (++n->n_up == n->n_placed && n->agent) {
        node_agent_later(w, n, 25,
                         (struct node_report){.type = AGENT_LISTENING,
                                              .local = n->spawns & 0xff,
                                              .epoch = n->epoch});
    }
}

void node_trainer_gone(struct world *w, uint32_t node, uint32_t local, uint32_t code,
                       uint32_t signal, bool is_own)
{
    struct node *n = &w->nodes[node];
    n->n_alive--;
    if (n->agent && n->guard) {
        node_agent_later(w, n, GUARD_TURN_MS,
                         (struct node_report){.type = AGENT_TRAINER_EXITED,
                                              .local = local,
                                              .code = code,
                                              .signal = signal,
                                              .is_own = is_own});
    }
    guard_end(w, n);
}

/* --- starting an agent --- */

/* Allocates the trainers. Precondition: no trainer lives. */
static void make_places(struct node *n, uint32_t nproc)
{
    if (nproc <= n->cap_trainers) {
        return;
    }
    struct trainer *places = sim_alloc(nproc, sizeof(*places));
    for (uint32_t i = 0; i < n->cap_trainers; i++) {
        places[i] = n->trainers[i];
    }
    free(n->trainers);
    n->trainers = places;
    n->cap_trainers = nproc;
}

static void on_start(struct world *w, const struct sim_event *event)
{
    struct node *n = &w->nodes[event->who];
    if (n->agent || event->tag != n->process) {
        return;
    }
    if (!n->on) {
        n->on = true; /* another machine of this name */
        n->suspended = false;
        n->peers_cut = false;
        n->parted_from = n->taken_by = NAMES_NONE;
        clock_set(&n->clock, w->now, n->clock.ppm, false);
        *net_link(w, n->index) = (struct link){.latency_lo = net_link(w, n->index)->latency_lo,
                                               .latency_hi = net_link(w, n->index)->latency_hi,
                                               .try_tag = net_link(w, n->index)->try_tag + 1,
                                               .try_since = SIM_NEVER,
                                               .conns = net_link(w, n->index)->conns,
                                               .conn = NO_CONN};
    }
    if (n->suspended || n->n_alive > 0) {
        world_again(w, event, w->now + START_LOOK_MS);
        return;
    }
    n->guard = true;
    n->n_guards = 1;
    n->buries = false;
    n->guard_pid++;
    n->fence = TFE_MONO_NEVER;
    n->fence_passed = false;
    n->sweeping = false;
    n->kill_stuck_until = 0;
    n->n_backlog = 0;
    n->runs_since = w->now;
    make_places(n, jobs_get(w, (uint32_t)event->arg)->nproc);
    node_agent_begin(w, n, (uint32_t)event->arg);
}

void node_start(struct world *w, uint32_t node, uint32_t job, const char *id)
{
    struct node *n = &w->nodes[node];
    if (n->agent) {
        return;
    }
    char own[sizeof(n->id)];
    if (++n->process == 1) {
        snprintf(own, sizeof(own), "%s", n->name);
    } else {
        snprintf(own, sizeof(own), "%s.%u", n->name, n->process);
    }
    n->heard = 0;
    n->is_twin = id != NULL;
    for (uint32_t first = id ? next_of_id(w, id, 0) : w->n_nodes; first < w->n_nodes;
         first = next_of_id(w, id, first + 1)) {
        w->nodes[first].is_twin = true;
    }
    w->has_twins = w->has_twins || id;
    id = id ? id : own;
    uint32_t twin = w->has_twins ? first_of_id(w, id) : node; /* the second process with this id */
    n->known_as = w->has_twins && twin < w->n_nodes ? w->nodes[twin].known_as : node;
    snprintf(n->id, sizeof(n->id), "%s", id);
    world_at(w, w->now, on_start, node, n->process, job);
}

/* --- faults --- */

void node_kill_agent(struct world *w, uint32_t node)
{
    struct node *n = &w->nodes[node];
    if (n->on && n->agent) {
        net_agent_close(w, node);
        node_agent_end(w, n);
        node_guard_orphaned(w, n);
    }
}

void node_kill_all(struct world *w, uint32_t node)
{
    struct node *n = &w->nodes[node];
    if (!n->on) {
        return;
    }
    if (n->agent) {
        net_agent_close(w, node);
        node_agent_end(w, n);
    }
    n->guard = false;
    n->buries = false;
    n->sweeping = false;
    node_kill_trainers(w, n);
}

void node_vanish(struct world *w, uint32_t node)
{
    struct node *n = &w->nodes[node];
    if (!n->on) {
        return;
    }
    net_vanish(w, node);
    if (n->agent) {
        node_agent_end(w, n);
    }
    for (uint32_t local = 0; local < n->cap_trainers; local++) {
        trainer_vanish(w, n, local);
    }
    n->on = false;
    n->guard = false;
    n->buries = false;
    n->left[0] = '\0';
    n->sweeping = false;
    n->suspended = false;
    n->n_backlog = 0;
    n->kill_stuck_until = 0;
}

void node_silence(struct world *w, uint32_t node)
{
    struct node *n = &w->nodes[node];
    if (n->job != NAMES_NONE && n->epoch) {
        /* Its trainers may be gone by now, and the report of that still on its way. */
        check_silence(w->check, check_era(w->check, n->job), n->job, n->epoch);
    }
    for (uint32_t local = 0; local < n->cap_trainers; local++) {
        trainer_silence(w, n, local);
    }
}

void node_freeze_agent(struct world *w, uint32_t node, bool frozen)
{
    struct node *n = &w->nodes[node];
    if (!n->on || !n->agent || n->frozen == frozen) {
        return;
    }
    node_silence(w, node);
    n->frozen = frozen;
    if (!frozen && machine_runs(n)) {
        go_on(w, n);
    }
}

void node_suspend(struct world *w, uint32_t node, bool clock_stops)
{
    struct node *n = &w->nodes[node];
    if (!n->on || n->suspended) {
        return;
    }
    n->suspended = true;
    if (clock_stops) {
        clock_set(&n->clock, w->now, n->clock.ppm, true);
        check_clock_stood(w->check, node, node_clock(w, node).ms);
        for (uint32_t local = 0; local < n->cap_trainers; local++) {
            trainer_clock_stood(n, local);
        }
    }
    look_at_trainers(w, n);
}

void node_resume(struct world *w, uint32_t node)
{
    struct node *n = &w->nodes[node];
    if (!n->on || !n->suspended) {
        return;
    }
    n->suspended = false;
    n->runs_since = w->now;
    clock_set(&n->clock, w->now, n->clock.ppm, false);
    look_at_trainers(w, n);
    go_on(w, n);
}

void node_cut_peers(struct world *w, uint32_t node, bool cut)
{
    struct node *n = &w->nodes[node];
    n->peers_cut = cut;
    look_at_trainers(w, n);
}

void node_part(struct world *w, uint32_t node, uint32_t from)
{
    struct node *n = &w->nodes[node];
    n->parted_from = from;
    look_at_trainers(w, n);
}

void node_give_address(struct world *w, uint32_t node, uint32_t to)
{
    node_vanish(w, node);
    w->nodes[node].taken_by = to;
}

void node_set_rate(struct world *w, uint32_t node, int64_t ppm)
{
    struct node *n = &w->nodes[node];
    clock_set(&n->clock, w->now, ppm, n->clock.stopped);
    if (machine_runs(n)) {
        node_agent_arm(w, n);
        arm_fence(w, n);
        node_check_fence(w, n);
    }
}

void node_fail_memory(struct world *w, uint32_t node, uint64_t k)
{
    w->nodes[node].mem.fail_in = k;
}
