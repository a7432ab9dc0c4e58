/* tests/sim/faults.c: random faults for the explorer; each fault ends again. */
#include "tests/sim/faults.h"

#include <stdlib.h>

#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/hostile.h"
#include "tests/sim/jobs.h"
#include "tests/sim/judge.h"
#include "tests/sim/net.h"
#include "tests/sim/node.h"
#include "tests/sim/script.h"
#include "tests/sim/server.h"

/* Probability (one fault of so many) that the server's disk is restored to an older state; maximum
 * time for which it is away. */
#define ROLL_BACK_EACH 16
#define ROLL_BACK_MS 8000
/* Minimum warning of the notices that come as the faults end. */
#define WARNED_LEAST_MS 20000
#define WARNED_MOST_MS 90000

struct faults {
    struct rng rng;
    uint32_t mean_ms;
    uint32_t tag;  /* generation of the present period of faults */
    size_t only;   /* the only kind of faults in this period; KINDS: all */
    uint32_t left; /* number of faults left in this period */
    bool on;
    bool rolls_back; /* the server's disk may be restored to an older state */
    faults_job_fn *job_for;
};

static uint64_t roll(struct world *w, uint64_t low, uint64_t high)
{
    return rng_between(&w->faults->rng, low, high);
}

/* Returns a duration: usually short, sometimes very long. */
static int64_t some_ms(struct world *w)
{
    static const uint32_t max[] = {50, 500, 2000, 8000, 20000, 60000, 200000};
    return (int64_t)roll(w, 1, max[roll(w, 0, sizeof(max) / sizeof(max[0]) - 1)]);
}

/* Returns a machine on which an agent runs; any machine if there is none. */
static uint32_t victim(struct world *w)
{
    uint32_t node = 0;
    for (int i = 0; i < 8; i++) {
        node = (uint32_t)roll(w, 0, w->n_nodes - 1);
        if (w->nodes[node].agent) {
            break;
        }
    }
    return node;
}

static uint32_t some_local(struct world *w, uint32_t node)
{
    uint32_t n = w->nodes[node].cap_trainers;
    return n ? (uint32_t)roll(w, 0, n - 1) : 0;
}

static void say(struct world *w, const char *what, uint32_t node, int64_t ms)
{
    script_disturb(w, node);
    if (node != NAMES_NONE) {
        judge_disturbed(w, node);
    }
    for (uint32_t job = 0; node == NAMES_NONE && job < jobs_count(w); job++) {
        judge_waits(w, job); /* waits for the disk, or the server */
    }
    world_trace(w, "--", what, "%s %lld ms", node == NAMES_NONE ? "" : w->nodes[node].name,
                (long long)ms);
}

/* --- ends of faults --- */

static void heal_link(struct world *w, uint32_t node)
{
    struct link *link = net_link(w, node);
    judge_disturbed(w, node);
    link->stalled = false;
    link->cut_up = false;
    link->cut_down = false;
    link->deafens = false;
    net_kick(w, node);
    node_cut_peers(w, node, false);
    node_part(w, node, NAMES_NONE);
}

static void on_heal(struct world *w, const struct sim_event *event)
{
    heal_link(w, event->who);
}

static void on_thaw(struct world *w, const struct sim_event *event)
{
    judge_disturbed(w, event->who);
    node_freeze_agent(w, event->who, false);
}

static void on_thaw_trainer(struct world *w, const struct sim_event *event)
{
    judge_disturbed(w, event->who);
    trainer_freeze(w, &w->nodes[event->who], (uint32_t)event->arg, false);
}

static void on_resume(struct world *w, const struct sim_event *event)
{
    judge_disturbed(w, event->who);
    node_resume(w, event->who);
}

static void on_server_start(struct world *w, const struct sim_event *event)
{
    (void)event;
    server_start(w);
}

static void start_agent(struct world *w, uint32_t node)
{
    if (!w->nodes[node].agent) {
        node_start(w, node, w->faults->job_for(w, node), NULL);
    }
}

static void on_start_agent(struct world *w, const struct sim_event *event)
{
    start_agent(w, event->who);
}

void faults_start_idle(struct world *w, uint32_t percent)
{
    for (uint32_t node = 0; node < w->n_nodes; node++) {
        if (!w->nodes[node].agent && roll(w, 0, 99) < percent) {
            start_agent(w, node);
        }
    }
}

/* Usually starts another agent some time later on a machine that has lost its agent. */
static void start_again(struct world *w, uint32_t node)
{
    if (roll(w, 0, 3) > 0) {
        world_at(w, w->now + some_ms(w), on_start_agent, node, 0, 0);
    }
}

/* --- faults --- */

static void fault_kill_agent(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "kill_agent", node, ms);
    node_kill_agent(w, node);
    start_again(w, node);
}

static void fault_kill_guard(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "kill_guard", node, ms);
    node_kill_guard(w, node);
}

static void fault_kill_node(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "kill_node", node, ms);
    node_kill_all(w, node);
    start_again(w, node);
}

static void fault_vanish(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "vanish", node, ms);
    node_vanish(w, node);
    start_again(w, node);
}

/* The machine vanishes, and the next machine (or an existing one) gets its address, as in a cloud's
 * network. */
static void fault_give_address(struct world *w, uint32_t node, int64_t ms)
{
    uint32_t other = (uint32_t)roll(w, 0, w->n_nodes - 1);
    if (other != node) {
        say(w, "give_address", node, ms);
        node_give_address(w, node, other);
        start_again(w, node);
    }
}

static void fault_end_trainer(struct world *w, uint32_t node, int64_t ms)
{
    static const uint32_t codes[] = {1, 1, 1, 2, 42, 143};
    uint32_t code = codes[roll(w, 0, 5)];
    if (w->nodes[node].job != NAMES_NONE && job_has_roles(jobs_get(w, w->nodes[node].job))) {
        code = roll(w, 0, 3) ? code : 0; /* a worker's script that does not support ps */
    }
    bool by_signal = roll(w, 0, 2) == 0;
    say(w, "end_trainer", node, ms);
    trainer_end(w, &w->nodes[node], some_local(w, node), by_signal ? 0 : code,
                by_signal ? (roll(w, 0, 1) ? 9 : 11) : 0);
}

static void fault_freeze_agent(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "freeze_agent", node, ms);
    node_freeze_agent(w, node, true);
    world_at(w, w->now + ms, on_thaw, node, 0, 0);
}

static void fault_freeze_trainer(struct world *w, uint32_t node, int64_t ms)
{
    uint32_t local = some_local(w, node);
    say(w, "freeze_trainer", node, ms);
    trainer_freeze(w, &w->nodes[node], local, true);
    world_at(w, w->now + ms, on_thaw_trainer, node, 0, local);
}

static void fault_suspend(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "suspend", node, ms);
    node_silence(w, node);
    node_suspend(w, node, false);
    world_at(w, w->now + ms, on_resume, node, 0, 0);
}

static void fault_pause(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "pause", node, ms);
    node_silence(w, node);
    node_suspend(w, node, true);
    world_at(w, w->now + ms, on_resume, node, 0, 0);
}

static void fault_stall(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "stall", node, ms);
    node_silence(w, node);
    net_link(w, node)->stalled = true;
    world_at(w, w->now + ms, on_heal, node, 0, 0);
}

/* The server's own network fails: all nodes fall silent at once. */
static void fault_isolate(struct world *w, uint32_t node, int64_t ms)
{
    (void)node;
    say(w, "isolate", NAMES_NONE, ms);
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        judge_disturbed(w, i);
        node_silence(w, i);
        net_link(w, i)->stalled = true;
        world_at(w, w->now + ms, on_heal, i, 0, 0);
    }
}

static void fault_cut(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "cut", node, ms);
    node_silence(w, node);
    uint64_t ways = roll(w, 1, 7);
    struct link *link = net_link(w, node);
    link->cut_up = link->cut_up || (ways & 1);
    link->cut_down = link->cut_down || (ways & 2);
    if (ways & 4) {
        node_cut_peers(w, node, true);
    }
    world_at(w, w->now + ms, on_heal, node, 0, 0);
}

/* Separates two machines, usually of one job; all others reach both. */
static void fault_part(struct world *w, uint32_t node, int64_t ms)
{
    uint32_t other = victim(w);
    for (int i = 0; i < 8 && w->nodes[other].job != w->nodes[node].job; i++) {
        other = victim(w);
    }
    if (other != node) {
        say(w, "part", node, ms);
        script_disturb(w, other);
        judge_disturbed(w, other);
        node_silence(w, node);
        node_silence(w, other);
        node_part(w, node, other);
        world_at(w, w->now + ms, on_heal, node, 0, 0);
    }
}

static void fault_reset(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "reset", node, ms);
    net_reset(w, node);
}

static void fault_false_reset(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "false_reset", node, ms);
    net_false_reset(w, node, roll(w, 0, 1));
}

static void fault_server_kill(struct world *w, uint32_t node, int64_t ms)
{
    (void)node;
    say(w, "server_kill", NAMES_NONE, ms);
    server_kill(w, (uint32_t)roll(w, 0, disk_pending(w)));
    world_at(w, w->now + ms, on_server_start, 0, 0, 0);
}

static void fault_stuck(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "stuck", node, ms);
    w->nodes[node].kill_stuck_until = w->now + ms;
}

/* Makes some training nodes unable to receive STOP, or to act on it, or unreachable, while others
 * would form the next epoch. */
static void deafen_some(struct world *w, int64_t ms)
{
    enum { STUCK, DEAF, DEAF_OR_CUT, WAYS } way = (int)roll(w, 0, WAYS - 1);
    uint64_t percent = roll(w, 0, 1) ? 100 : 30;
    ms += some_ms(w) + (int64_t)roll(w, 0, 60000);
    for (uint32_t node = 0; node < w->n_nodes; node++) {
        struct link *link = net_link(w, node);
        if (w->nodes[node].n_alive == 0 || roll(w, 0, 99) >= percent) {
            continue;
        }
        if (way == STUCK) {
            fault_stuck(w, node, ms);
            continue;
        }
        bool is_cut = way == DEAF_OR_CUT && roll(w, 0, 2) > 0;
        say(w, is_cut ? "cut" : "deafen", node, ms);
        if (is_cut) {
            node_silence(w, node);
            link->cut_up = link->cut_down = true;
        } else {
            link->deafens = true;
        }
        world_at(w, w->now + ms, on_heal, node, 0, 0);
    }
    faults_start_idle(w, 50);
}

/* The server's machine is replaced by one without its records. */
static void fault_disk_lost(struct world *w, uint32_t node, int64_t ms)
{
    (void)node;
    say(w, "disk_lost", NAMES_NONE, ms);
    server_kill(w, 0);
    disk_lose(w);
    world_at(w, w->now + ms, on_server_start, 0, 0, 0);
}

static void fault_server_late(struct world *w, uint32_t node, int64_t ms)
{
    (void)node;
    ms = ms > 20000 ? 20000 : ms;
    say(w, "server_late", NAMES_NONE, ms);
    server_be_late(w, ms);
}

/* The server's machine sleeps for longer than most leases and fences. */
static void fault_server_sleep(struct world *w, uint32_t node, int64_t ms)
{
    (void)node;
    ms = ms > FAULTS_SERVER_SLEEP_MS ? FAULTS_SERVER_SLEEP_MS : ms;
    say(w, "server_sleep", NAMES_NONE, ms);
    server_be_late(w, ms);
}

static void fault_disk_stuck(struct world *w, uint32_t node, int64_t ms)
{
    (void)node;
    say(w, "disk_stuck", NAMES_NONE, ms);
    disk_stall_until(w, w->now + ms);
}

static void fault_disk_full(struct world *w, uint32_t node, int64_t ms)
{
    (void)node;
    say(w, "disk_full", NAMES_NONE, ms);
    disk_fail_until(w, w->now + ms);
}

static void fault_storm(struct world *w, uint32_t node, int64_t ms)
{
    (void)node;
    say(w, "storm", NAMES_NONE, ms);
    faults_start_idle(w, 90);
}

static void fault_term(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "term", node, ms);
    node_signal(w, node, 15);
    if (roll(w, 0, 3) == 0) {
        node_signal(w, node, 15);
    }
    start_again(w, node);
}

static void fault_drain(struct world *w, uint32_t node, int64_t ms)
{
    struct node *n = &w->nodes[node];
    if (n->agent) {
        say(w, "drain", node, ms);
        n->was_noticed = true;
        n->warned_at = w->now;
        server_drain(w, jobs_get(w, n->job)->name.text, n->id,
                     roll(w, 0, 2) ? MSG_UNSET : (uint32_t)some_ms(w));
        start_again(w, node);
    }
}

static void on_preempt(struct world *w, const struct sim_event *event)
{
    struct node *n = &w->nodes[event->who];
    bool is_now = w->faults->on && w->faults->tag == event->arg;
    if (n->process == event->tag && (is_now || node_leaves(w, event->who))) {
        script_disturb(w, event->who);
        judge_disturbed(w, event->who);
        world_trace(w, "--", "preempt", "%s", n->name);
        node_vanish(w, event->who);
        start_again(w, event->who);
    }
}

/* A machine will go away, or may: it does, or stays; sometimes its agent gets a notice. */
static void fault_notice(struct world *w, uint32_t node, int64_t ms)
{
    const struct node *n = &w->nodes[node];
    enum tfe_notice kind = (enum tfe_notice)roll(w, NOTICE_REBALANCE, NOTICE_OPERATOR);
    ms = roll(w, 0, 1) ? (int64_t)roll(w, 15000, 30000) : ms;
    bool has_deadline = kind != NOTICE_REBALANCE && roll(w, 0, 3) > 0;
    bool can_follow = has_deadline && judge_can_follow(w, node, ms);
    say(w, msg_notice_name(kind), node, has_deadline ? ms : -1);
    if (can_follow) {
        judge_notice(w, node, ms);
    }
    node_notice(w, node, kind, has_deadline ? (uint32_t)ms : MSG_UNSET, false);
    switch (roll(w, 0, 3)) {
    case 0:
        node_notice(w, node, kind, MSG_UNSET, true);
        return;
    case 1:
        return;
    default:
        if (n->agent && kind != NOTICE_REBALANCE) {
            world_at(w, w->now + ms, on_preempt, node, n->process, w->faults->tag);
        }
        return;
    }
}

static void fault_evict(struct world *w, uint32_t node, int64_t ms)
{
    struct node *n = &w->nodes[node];
    if (n->agent) {
        say(w, "evict", node, ms);
        server_order(w, RDZV_EVICT, jobs_get(w, n->job)->name.text, n->id);
        start_again(w, node);
    }
}

static void fault_stop_job(struct world *w, uint32_t node, int64_t ms)
{
    struct node *n = &w->nodes[node];
    bool should_continue =
        n->agent && (jobs_get(w, n->job)->new_run || jobs_get(w, n->job)->run_key);
    if (n->agent && roll(w, 0, should_continue ? 2 : 9) == 0) {
        say(w, "stop_job", node, ms);
        for (uint32_t i = 0; i < w->n_nodes; i++) {
            if (w->nodes[i].job == n->job) {
                judge_disturbed(w, i);
            }
        }
        server_order(w, RDZV_STOP_JOB, jobs_get(w, n->job)->name.text, NULL);
    }
}

/* Makes the stored record of one job older than the last write, or unreadable. */
static void damage_record(struct world *w, uint32_t index, uint32_t epochs)
{
    if (roll(w, 0, 1)) {
        return;
    }
    if (epochs > 2) {
        disk_tear(w, index);
    } else {
        disk_forget_last(w, index);
    }
}

/* The server restarts with an older copy of its disk, with an incomplete one, or with an empty
 * one. */
static void fault_roll_back(struct world *w, uint32_t node, int64_t ms)
{
    (void)node;
    uint32_t epochs = (uint32_t)roll(w, 1, 3);
    ms = ms > ROLL_BACK_MS ? ROLL_BACK_MS : ms;
    server_kill(w, 0);
    switch (roll(w, 0, 3)) {
    case 0:
        say(w, "damage", NAMES_NONE, ms);
        for (uint32_t i = 0; i < disk_records(w); i++) {
            damage_record(w, i, epochs);
        }
        break;
    case 1:
        say(w, "disk_lost", NAMES_NONE, ms);
        disk_lose(w);
        break;
    default:
        say(w, "roll_back", NAMES_NONE, ms);
        disk_roll_back(w, epochs);
        break;
    }
    world_at(w, w->now + ms, on_server_start, 0, 0, 0);
    deafen_some(w, ms);
}

static void fault_hang(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "hang", node, ms);
    trainer_hang(w, &w->nodes[node], some_local(w, node));
}

static void fault_memory(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "memory", node, ms);
    if (roll(w, 0, 1)) {
        script_disturb(w, NAMES_NONE);
        server_fail_memory(w, roll(w, 1, 20));
    } else {
        node_fail_memory(w, node, roll(w, 1, 5));
    }
}

/* Starts two processes with one id. */
static void fault_duplicate(struct world *w, uint32_t node, int64_t ms)
{
    uint32_t other = (uint32_t)roll(w, 0, w->n_nodes - 1);
    struct node *n = &w->nodes[node];
    if (!n->agent || w->nodes[other].agent) {
        return;
    }
    say(w, "duplicate", node, ms);
    judge_disturbed(w, other);
    node_start(w, other, n->job, n->id);
}

static void fault_rate(struct world *w, uint32_t node, int64_t ms)
{
    say(w, "rate", node, ms);
    node_set_rate(w, node, (int64_t)roll(w, 950000, 1050000));
}

static void fault_hostile(struct world *w, uint32_t node, int64_t ms)
{
    (void)node;
    (void)ms;
    hostile_speak(w, &w->faults->rng);
}

static const struct {
    uint32_t weight;
    void (*act)(struct world *w, uint32_t node, int64_t ms);
} kinds[] = {
    {10, fault_kill_agent},    {4, fault_kill_guard},  {10, fault_kill_node},
    {6, fault_vanish},         {8, fault_end_trainer}, {8, fault_freeze_agent},
    {4, fault_freeze_trainer}, {6, fault_suspend},     {4, fault_pause},
    {8, fault_stall},          {8, fault_cut},         {2, fault_isolate},
    {8, fault_reset},          {3, fault_server_kill}, {1, fault_disk_lost},
    {4, fault_server_late},    {2, fault_disk_stuck},  {2, fault_disk_full},
    {6, fault_storm},          {6, fault_term},        {4, fault_drain},
    {10, fault_notice},        {4, fault_evict},       {2, fault_stop_job},
    {3, fault_stuck},          {2, fault_hang},        {3, fault_memory},
    {1, fault_duplicate},      {2, fault_rate},        {8, fault_hostile},
    {1, fault_server_sleep},   {4, fault_false_reset}, {4, fault_part},
    {3, fault_give_address},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static size_t some_kind(struct world *w)
{
    uint64_t all = 0;
    for (size_t i = 0; i < KINDS; i++) {
        all += kinds[i].weight;
    }
    uint64_t pick = roll(w, 0, all - 1);
    size_t kind = 0;
    while (pick >= kinds[kind].weight) {
        pick -= kinds[kind++].weight;
    }
    return kind;
}

static void on_fault(struct world *w, const struct sim_event *event)
{
    struct faults *f = w->faults;
    if (!f->on || event->tag != f->tag || f->left == 0) {
        return;
    }
    f->left--;
    size_t kind = f->only < KINDS ? f->only : some_kind(w);
    uint32_t node = victim(w);
    int64_t ms = some_ms(w);
    if (f->rolls_back && roll(w, 0, ROLL_BACK_EACH - 1) == 0) {
        fault_roll_back(w, node, ms);
    } else {
        kinds[kind].act(w, node, ms);
    }
    /* Some faults come in quick succession, some far apart. */
    uint32_t next = roll(w, 0, 3) == 0 ? 20 : 2 * f->mean_ms;
    world_at(w, w->now + (int64_t)roll(w, 0, next), on_fault, 0, f->tag, 0);
}

struct faults *faults_new(struct world *w, uint64_t seed, uint32_t mean_ms, faults_job_fn *job_for)
{
    struct faults *f = sim_alloc(1, sizeof(*f));
    rng_init(&f->rng, seed);
    f->mean_ms = mean_ms;
    f->job_for = job_for;
    f->rolls_back = world_draw(w, 0, 0, 13) % 4 == 0;
    w->faults = f;
    return f;
}

void faults_free(struct world *w)
{
    free(w->faults);
    w->faults = NULL;
}

void faults_begin(struct world *w)
{
    w->faults->on = true;
    w->faults->tag++;
    /* The effect of one kind of fault shows best without others. */
    bool is_one_kind = roll(w, 0, 3) == 0;
    w->faults->only = is_one_kind ? some_kind(w) : KINDS;
    w->faults->left = is_one_kind ? (uint32_t)roll(w, 1, 12) : UINT32_MAX;
    world_at(w, w->now, on_fault, 0, w->faults->tag, 0);
}

static void warn(struct world *w, uint32_t node, bool goes)
{
    struct node *n = &w->nodes[node];
    int64_t ms = (int64_t)roll(w, WARNED_LEAST_MS, WARNED_MOST_MS);
    if (n->agent && n->noticed == 0) {
        node_notice(w, node, NOTICE_PREEMPT, (uint32_t)ms, false);
        if (goes) {
            world_at(w, w->now + ms, on_preempt, node, n->process, w->faults->tag);
        }
    }
}

/* Warns a node, or some, just when all is well again: the job must react in time. */
static void warn_some(struct world *w)
{
    bool goes = roll(w, 0, 2) == 0; /* if the first one's machine goes away, the others do too */
    switch (roll(w, 0, 3)) {
    case 0:
        return;
    case 1:
        for (uint32_t node = 0; node < w->n_nodes; node++) {
            if (roll(w, 0, 3) == 0) {
                warn(w, node, goes);
            }
        }
        return;
    default:
        warn(w, victim(w), goes);
        return;
    }
}

void faults_end(struct world *w)
{
    w->faults->on = false;
    world_trace(w, "--", "quiet", "%s", "");
    disk_fail_until(w, 0);
    disk_stall_until(w, 0);
    server_start(w);
    for (uint32_t node = 0; node < w->n_nodes; node++) {
        struct node *n = &w->nodes[node];
        n->kill_stuck_until = 0;
        n->mem.fail_in = 0;
        script_disturb(w, node);
        heal_link(w, node);
        node_resume(w, node);
        node_freeze_agent(w, node, false);
        /* Most warnings stay in force: the machines go away in time, or stay after all. Handled
         * after the notices that exist now. */
        bool stands = roll(w, 0, 3) > 0;
        for (unsigned kind = NOTICE_REBALANCE; kind <= NOTICE_OPERATOR; kind++) {
            if (n->agent && n->noticed & 1u << kind && !stands) {
                node_notice(w, node, (enum tfe_notice)kind, MSG_UNSET, true);
            }
        }
        for (uint32_t local = 0; local < n->cap_trainers; local++) {
            trainer_freeze(w, n, local, false);
        }
    }
    server_fail_memory(w, 0);
    warn_some(w);
}
