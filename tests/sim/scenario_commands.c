/* tests/sim/scenario_commands.c: the commands of scenarios, one row of a table each.
 *
 * Before the world begins:
 *   config KEY=VALUE…         ttl gather gather_max fence stop_grace exit_grace finish_idle
 * max_restarts wire=1, or 2: in pieces link latency=1ms..20ms    of all machines job NAME
 * nnodes=1:4 …     nproc restarts script start step steps checkpoint finish peers frozen vanished
 * kill fail_rank fail_at fail_code fail_epochs mute elastic new_run tells=1s listens=1 deaf=1
 * save=500ms chief_grace run_key no_grow grow_now preempt_grace fail_start memory ps chief
 *                             all_workers linger evaluator min_running
 *   show WHAT… / hide WHAT…   kinds of trace lines; `show all`
 *   run DURATION              until when; 60s
 * At a time: at TIME COMMAND …         the rows of `commands` below */
#include <stdio.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/jobs.h"
#include "tests/sim/judge.h"
#include "tests/sim/net.h"
#include "tests/sim/node.h"
#include "tests/sim/scenario.h"
#include "tests/sim/server.h"

/* Number of words of an `at` line before those of its command: at, TIME, COMMAND. */
#define AT_WORDS 3

static struct scenario_world *scenario_of(struct world *w)
{
    return (struct scenario_world *)(void *)((char *)w - offsetof(struct scenario_world, world));
}

static int wrong(const struct scenario_world *sw, const struct words *words, const char *what)
{
    fprintf(stderr, "%s:%u: %s\n", sw->path, words->line, what);
    return -1;
}

/* Returns -1 if the line contains a setting that its command does not know. */
static int all_asked(const struct scenario_world *sw, const struct words *words)
{
    const char *word = words_unasked(words);
    if (!word) {
        return 0;
    }
    fprintf(stderr, "%s:%u: no such setting here: %s\n", sw->path, words->line, word);
    return -1;
}

/* --- before the simulation begins --- */

static int set_ms(struct words *words, const char *key, uint32_t *ret)
{
    const char *value = words_value(words, key);
    int64_t ms;
    if (!value) {
        return 0;
    }
    if (words_duration(value, &ms) || ms > UINT32_MAX) {
        return -1;
    }
    *ret = (uint32_t)ms;
    return 0;
}

static int set_range(struct words *words, const char *key, uint32_t *lo, uint32_t *hi)
{
    const char *value = words_value(words, key);
    return value ? words_range(value, lo, hi) : 0;
}

static int set_u64(struct words *words, const char *key, uint64_t *ret)
{
    const char *value = words_value(words, key);
    return value ? words_number(value, ret) : 0;
}

static int set_u32(struct words *words, const char *key, uint32_t *ret)
{
    uint64_t value = *ret;
    int rc = set_u64(words, key, &value);
    *ret = (uint32_t)value;
    return rc;
}

static int set_config(struct world *w, struct words *words)
{
    struct rdzv_config *c = server_config(w);
    uint32_t wire = 0;
    uint32_t deaths = 0;
    int rc = set_ms(words, "ttl", &c->ttl_ms) | set_ms(words, "gather", &c->defaults.gather_ms) |
             set_ms(words, "gather_max", &c->gather_max_ms) | set_ms(words, "fence", &c->fence_ms) |
             set_ms(words, "stop_grace", &c->defaults.stop_grace_ms) |
             set_ms(words, "grow_wait", &c->defaults.grow_wait_ms) |
             set_ms(words, "exit_grace", &c->exit_grace_ms) |
             set_ms(words, "finish_idle", &c->defaults.finish_idle_ms) |
             set_u32(words, "renew_rate", &c->renew_rate) |
             set_u32(words, "max_nodes", &c->max_nodes) |
             set_u32(words, "max_restarts", &c->defaults.max_restarts) |
             set_u32(words, "wire", &wire) | set_u32(words, "deaths", &deaths);
    w->options.wire = wire != 0;
    w->options.pieces = wire > 1;
    w->options.deaths = deaths != 0;
    return rc;
}

static int set_link(struct world *w, struct words *words)
{
    uint32_t lo = 1;
    uint32_t hi = 1;
    int rc = set_range(words, "latency", &lo, &hi);
    for (uint32_t i = 0; i < w->n_nodes; i++) {
        net_link(w, i)->latency_lo = lo;
        net_link(w, i)->latency_hi = hi;
    }
    return rc;
}

static int set_job(struct world *w, struct words *words)
{
    uint32_t min = 1;
    uint32_t max = 1;
    uint32_t nproc = 1;
    const char *sizes = words_value(words, "nnodes");
    uint32_t n_ps = 0;
    uint32_t chief = 0;
    if (words->n < 2 || (sizes && words_sizes(sizes, &min, &max)) ||
        set_u32(words, "nproc", &nproc) || set_u32(words, "ps", &n_ps) ||
        set_u32(words, "chief", &chief)) {
        return -1;
    }
    struct job *job =
        jobs_get(w, jobs_add(w, words->v[1], min + n_ps + chief, max + n_ps + chief, nproc));
    job->n_ps = n_ps;
    job->chief = chief;
    struct trainer_spec *spec = &job->spec;
    uint32_t unused;
    uint32_t new_run = 0;
    uint32_t no_grow = 0;
    uint32_t grow_now = 0;
    uint32_t all_workers = 0;
    uint32_t linger = 0;
    uint32_t evaluator = 0;
    if (set_u32(words, "min_running", &job->min_running) || set_u32(words, "new_run", &new_run) ||
        set_u32(words, "no_grow", &no_grow) || set_u32(words, "grow_now", &grow_now) ||
        set_u32(words, "all_workers", &all_workers) || set_u32(words, "linger", &linger) ||
        set_u32(words, "evaluator", &evaluator)) {
        return -1;
    }
    job->new_run = new_run != 0;
    job->no_grow = no_grow != 0;
    job->grow_now = grow_now != 0;
    job->all_workers = all_workers != 0;
    job->linger = linger != 0;
    job->evaluator = evaluator != 0;
    return set_ms(words, "chief_grace", &job->chief_grace_ms) |
           set_ms(words, "preempt_grace", &job->preempt_grace_ms) |
           set_u32(words, "run_key", &job->run_key) | set_ms(words, "elastic", &job->elastic_ms) |
           set_u32(words, "restarts", &job->max_restarts) | set_u64(words, "script", &job->script) |
           set_range(words, "start", &spec->start_lo, &spec->start_hi) |
           set_ms(words, "step", &spec->step_ms) | set_u64(words, "steps", &spec->steps) |
           set_u32(words, "checkpoint", &spec->checkpoint_every) |
           set_ms(words, "finish", &spec->finish_hi) |
           set_range(words, "peers", &spec->peers_lo, &spec->peers_hi) |
           set_range(words, "frozen", &spec->frozen_ms, &unused) |
           set_range(words, "vanished", &spec->vanished_ms, &unused) |
           set_range(words, "kill", &spec->kill_lo, &spec->kill_hi) |
           set_u32(words, "fail_rank", &spec->fail_rank) |
           set_u64(words, "fail_at", &spec->fail_at) |
           set_u32(words, "fail_code", &spec->fail_code) |
           set_u32(words, "fail_epochs", &spec->fail_epochs) |
           set_u32(words, "fail_start", &spec->fail_start) | set_u32(words, "mute", &spec->mute) |
           set_ms(words, "tells", &spec->tell_ms) | set_u32(words, "listens", &spec->listens) |
           set_u32(words, "deaf", &spec->deaf) | set_ms(words, "save", &spec->save_ms) |
           set_u32(words, "memory", &spec->memory_every);
}

/* --- at a time --- */

/* Runs a command for each machine that its words name (those without =), after `skip` words of its
 * own. */
#define NODES_FROM(n) (AT_WORDS + (n))

static int local_of(struct words *words, uint32_t *ret)
{
    *ret = 0;
    return set_u32(words, "local", ret);
}

static void do_join(struct world *w, struct words *words, uint32_t node)
{
    uint32_t durable = 0;
    (void)set_u32(words, "durable", &durable);
    w->nodes[node].durable = durable != 0;
    uint32_t fixed = 0;
    (void)set_u32(words, "fixed", &fixed);
    w->nodes[node].fixed = fixed != 0;
    uint32_t spot = 0;
    (void)set_u32(words, "spot", &spot);
    w->nodes[node].spot = spot != 0;
    uint32_t plain = 0;
    (void)set_u32(words, "plain", &plain);
    w->nodes[node].plain = plain != 0;
    const char *name = words_value(words, "job");
    const char *id = words_value(words, "id");
    if (id && node_find_process(w, id) != NAMES_NONE) {
        judge_disturbed(w, node_find_process(w, id));
    }
    node_start(w, node, jobs_find(w, name ? name : "default"), id);
}

static void do_kill_node(struct world *w, struct words *words, uint32_t node)
{
    (void)words;
    node_kill_all(w, node);
}

static void do_kill_agent(struct world *w, struct words *words, uint32_t node)
{
    (void)words;
    node_kill_agent(w, node);
}

static void do_kill_guard(struct world *w, struct words *words, uint32_t node)
{
    (void)words;
    node_kill_guard(w, node);
}

static void do_end(struct world *w, struct words *words, uint32_t node)
{
    uint32_t code = 0;
    uint32_t signal = 0;
    uint32_t local;
    (void)(local_of(words, &local) | set_u32(words, "code", &code) |
           set_u32(words, "signal", &signal));
    trainer_end(w, &w->nodes[node], local, code, signal);
}

static void do_vanish(struct world *w, struct words *words, uint32_t node)
{
    (void)words;
    node_vanish(w, node);
}

static void do_freeze_agent(struct world *w, struct words *words, uint32_t node)
{
    node_freeze_agent(w, node, words->v[2][0] == 'f');
}

static void do_freeze_trainer(struct world *w, struct words *words, uint32_t node)
{
    uint32_t local;
    (void)local_of(words, &local);
    trainer_freeze(w, &w->nodes[node], local, words->v[2][0] == 'f');
}

static void do_suspend(struct world *w, struct words *words, uint32_t node)
{
    node_silence(w, node);
    node_suspend(w, node, strcmp(words->v[2], "pause") == 0);
}

static void do_resume(struct world *w, struct words *words, uint32_t node)
{
    (void)words;
    node_resume(w, node);
}

static void do_stall(struct world *w, struct words *words, uint32_t node)
{
    (void)words;
    node_silence(w, node);
    net_link(w, node)->stalled = true;
}

static void do_cut(struct world *w, struct words *words, uint32_t node)
{
    const char *way = words->v[AT_WORDS];
    bool both = strcmp(way, "server") == 0;
    node_silence(w, node);
    if (both || strcmp(way, "up") == 0) {
        net_link(w, node)->cut_up = true;
    }
    if (both || strcmp(way, "down") == 0) {
        net_link(w, node)->cut_down = true;
    }
    if (strcmp(way, "answers") == 0) {
        net_link(w, node)->deafens = true;
    }
    if (strcmp(way, "peers") == 0) {
        node_cut_peers(w, node, true);
    }
}

static void do_heal(struct world *w, struct words *words, uint32_t node)
{
    (void)words;
    struct link *link = net_link(w, node);
    link->stalled = link->cut_up = link->cut_down = link->deafens = false;
    node_cut_peers(w, node, false);
    node_part(w, node, NAMES_NONE);
    net_kick(w, node);
}

static void do_part(struct world *w, struct words *words, uint32_t node)
{
    uint32_t other = node_find(w, words->v[AT_WORDS]);
    node_silence(w, node);
    node_part(w, node, other);
}

static void do_give_address(struct world *w, struct words *words, uint32_t node)
{
    node_give_address(w, node, node_find(w, words->v[AT_WORDS]));
}

static void do_reset(struct world *w, struct words *words, uint32_t node)
{
    (void)words;
    net_reset(w, node);
}

static void do_false_reset(struct world *w, struct words *words, uint32_t node)
{
    net_false_reset(w, node, strcmp(words->v[AT_WORDS], "server") == 0);
}

static void do_signal(struct world *w, struct words *words, uint32_t node)
{
    node_signal(w, node, strcmp(words->v[2], "int") == 0 ? 2 : 15);
}

static void do_order(struct world *w, struct words *words, uint32_t node)
{
    const struct node *n = &w->nodes[node];
    const char *job = jobs_get(w, n->job)->name.text;
    uint32_t within = MSG_UNSET;
    (void)set_ms(words, "within", &within);
    if (words->v[2][0] == 'd') {
        server_drain(w, job, n->id, within);
    } else {
        server_order(w, RDZV_EVICT, job, n->id);
    }
}

static void do_notice(struct world *w, struct words *words, uint32_t node)
{
    uint32_t deadline = MSG_UNSET;
    uint32_t withdrawn = 0;
    (void)(set_ms(words, "deadline", &deadline) | set_u32(words, "withdrawn", &withdrawn));
    for (enum tfe_notice kind = NOTICE_REBALANCE; kind <= NOTICE_OPERATOR; kind++) {
        if (strcmp(words->v[AT_WORDS], msg_notice_name(kind)) == 0) {
            node_notice(w, node, kind, deadline, withdrawn != 0);
        }
    }
}

static void do_rate(struct world *w, struct words *words, uint32_t node)
{
    int64_t ppm = 1000000;
    (void)words_rate(words->v[AT_WORDS], &ppm);
    node_set_rate(w, node, ppm);
}

static void do_stuck(struct world *w, struct words *words, uint32_t node)
{
    int64_t ms = 0;
    (void)words_duration(words->v[AT_WORDS], &ms);
    w->nodes[node].kill_stuck_until = w->now + ms;
}

static void do_hang(struct world *w, struct words *words, uint32_t node)
{
    (void)words;
    trainer_hang(w, &w->nodes[node], 0);
}

static void do_nomem(struct world *w, struct words *words, uint32_t node)
{
    uint64_t k = 1;
    (void)words_number(words->v[AT_WORDS], &k);
    node_fail_memory(w, node, k);
}

static void do_spot(struct world *w, struct words *words, uint32_t node)
{
    (void)words;
    node_told_spot(w, node);
}

static const struct command {
    const char *words; /* name of the command */
    size_t own;        /* number of its own words after the name */
    void (*act)(struct world *w, struct words *words, uint32_t node);
} commands[] = {
    /* job= id= durable=1 spot=1 fixed=1; plain=1: without the job's new_run */
    {"join", 0, do_join},
    {"kill node", 0, do_kill_node},
    {"kill agent", 0, do_kill_agent},
    {"kill guard", 0, do_kill_guard},
    {"end", 0, do_end}, /* its trainer ends by itself: code= signal= local= */
    {"vanish", 0, do_vanish},
    {"freeze agent", 0, do_freeze_agent},
    {"thaw agent", 0, do_freeze_agent},
    {"freeze trainer", 0, do_freeze_trainer},
    {"thaw trainer", 0, do_freeze_trainer},
    {"suspend", 0, do_suspend}, /* its clock goes on */
    {"pause", 0, do_suspend},   /* its clock stands still */
    {"resume", 0, do_resume},
    {"stall", 0, do_stall},
    {"cut", 1, do_cut}, /* up, down, server (both), peers; answers: down, once a JOIN has arrived */
    {"part", 1, do_part}, /* from that machine only */
    {"heal", 0, do_heal},
    {"give_address", 1, do_give_address}, /* to that machine; the node vanishes */
    {"reset", 0, do_reset},
    {"false_reset", 1, do_false_reset}, /* server, agent: which end sees it */
    {"term", 0, do_signal},
    {"int", 0, do_signal},
    {"drain", 0, do_order}, /* operator's command: within=10s */
    {"evict", 0, do_order},
    {"notice", 1, do_notice}, /* rebalance, preempt …: deadline=30s withdrawn=1 */
    {"rate", 1, do_rate},     /* +5% */
    {"stuck", 1, do_stuck},   /* time for which no trainer can be killed there */
    {"hang", 0, do_hang},
    {"spot", 0, do_spot},   /* the cloud reports it only now */
    {"nomem", 1, do_nomem}, /* number of the allocation from now on that fails */
};

static const struct command *command_of(struct words *words, size_t *ret_from)
{
    char two[64];
    snprintf(two, sizeof(two), "%s %s", words->v[2], words->n > AT_WORDS ? words->v[3] : "");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].words, words->v[2]) == 0) {
            *ret_from = AT_WORDS + commands[i].own;
            return &commands[i];
        }
        if (strcmp(commands[i].words, two) == 0) {
            *ret_from = AT_WORDS + 1 + commands[i].own;
            return &commands[i];
        }
    }
    return NULL;
}

static void disturb_all(struct world *w)
{
    for (uint32_t node = 0; node < w->n_nodes; node++) {
        judge_disturbed(w, node);
    }
}

static void damage_record(struct world *w, const char *job, bool is_torn)
{
    for (uint32_t i = 0; i < disk_records(w); i++) {
        if (strcmp(disk_record(w, i)->job, job) != 0) {
            continue;
        }
        if (is_torn) {
            disk_tear(w, i);
        } else {
            disk_forget_last(w, i);
        }
    }
}

/* server kill [N: of the writes under way so many survive] | lose (with its disk) | rollback N
 * (its disk is as it was N epochs ago) | tear JOB (its record cannot be read) | unwrite JOB (the
 * last write of it is not there) | start | late 600ms | rate +5% | nomem K | stop JOB
 * | resize JOB MIN:MAX */
static void act_on_server(struct world *w, struct words *words)
{
    const char *what = words->v[AT_WORDS];
    const char *value = words->n > AT_WORDS + 1 ? words->v[AT_WORDS + 1] : "";
    int64_t number = 0;
    uint64_t k = 1;
    if (strcmp(what, "kill") == 0) {
        k = 0;
        (void)words_number(value, &k);
        server_kill(w, (uint32_t)k);
    } else if (strcmp(what, "lose") == 0) {
        server_kill(w, 0);
        disk_lose(w);
    } else if (strcmp(what, "tear") == 0 || strcmp(what, "unwrite") == 0) {
        server_kill(w, 0);
        damage_record(w, value, what[0] == 't');
    } else if (strcmp(what, "rollback") == 0 && words_number(value, &k) == 0) {
        server_kill(w, 0);
        disk_roll_back(w, (uint32_t)k);
    } else if (strcmp(what, "stop") == 0) {
        disturb_all(w);
        server_order(w, RDZV_STOP_JOB, value, NULL);
    } else if (strcmp(what, "grow") == 0) {
        server_order(w, RDZV_GROW, value, NULL);
    } else if (strcmp(what, "resize") == 0) {
        uint32_t min = 1;
        uint32_t max = 1;
        (void)words_sizes(words->v[words->n - 1], &min, &max);
        server_resize(w, value, min, max);
    } else if (strcmp(what, "start") == 0) {
        server_start(w);
    } else if (strcmp(what, "late") == 0 && words_duration(value, &number) == 0) {
        disturb_all(w);
        server_be_late(w, number);
    } else if (strcmp(what, "rate") == 0 && words_rate(value, &number) == 0) {
        server_set_rate(w, number);
    } else if (strcmp(what, "nomem") == 0 && words_number(value, &k) == 0) {
        server_fail_memory(w, k);
    }
}

/* disk latency 5ms | full 10s | stuck 10s */
static void act_on_disk(struct world *w, struct words *words)
{
    const char *what = words->v[AT_WORDS];
    int64_t ms = 0;
    (void)words_duration(words->v[words->n - 1], &ms);
    if (strcmp(what, "latency") == 0) {
        disk_set_latency(w, (uint32_t)ms, (uint32_t)ms);
    } else if (strcmp(what, "full") == 0) {
        disk_fail_until(w, w->now + ms);
    } else if (strcmp(what, "stuck") == 0) {
        disk_stall_until(w, w->now + ms);
    }
}

static void echo(struct world *w, struct words *words)
{
    char text[TRACE_LINE_MAX] = "";
    size_t n = 0;
    for (size_t i = AT_WORDS; i < words->n && n < sizeof(text); i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i > AT_WORDS ? " " : "",
                              words->v[i]);
    }
    world_trace(w, "--", words->v[2], "%s", text);
}

static void obey(struct world *w, struct words *words)
{
    size_t from = 0;
    if (strcmp(words->v[2], "server") == 0) {
        act_on_server(w, words);
        return;
    }
    if (strcmp(words->v[2], "disk") == 0) {
        act_on_disk(w, words);
        return;
    }
    if (strcmp(words->v[2], "storm") == 0) {
        char prefix[NODE_NAME_MAX];
        uint64_t n = 0;
        (void)words_number(words->v[AT_WORDS + 1], &n);
        for (uint64_t i = 1; i <= n; i++) {
            snprintf(prefix, sizeof(prefix), "%.16s%llu", words->v[AT_WORDS],
                     (unsigned long long)i);
            do_join(w, words, node_find(w, prefix));
        }
        return;
    }
    const struct command *command = command_of(words, &from);
    for (size_t i = from; i < words->n; i++) {
        if (!strchr(words->v[i], '=')) {
            judge_disturbed(w, node_find(w, words->v[i]));
            command->act(w, words, node_find(w, words->v[i]));
        }
    }
}

static void on_command(struct world *w, const struct sim_event *event)
{
    struct scenario_world *sw = scenario_of(w);
    struct words *words = &sw->lines[event->who];
    echo(w, words);
    obey(w, words);
    if (all_asked(sw, words)) {
        sw->is_wrong = true;
        w->stop = true;
    }
}

/* --- the two passes --- */

static void add_name(struct scenario_world *sw, const char *name)
{
    for (size_t i = 0; i < sw->names.n; i++) {
        if (strcmp(sw->names.v[i], name) == 0) {
            return;
        }
    }
    lines_add(&sw->names, name, strlen(name));
}

int commands_collect(struct scenario_world *sw, struct words *words)
{
    int64_t at;
    size_t from = 0;
    if (strcmp(words->v[0], "at") != 0) {
        return 0;
    }
    if (words->n < AT_WORDS || words_duration(words->v[1], &at)) {
        return wrong(sw, words, "at TIME COMMAND …");
    }
    if (strcmp(words->v[2], "server") == 0 || strcmp(words->v[2], "disk") == 0) {
        return words->n > AT_WORDS ? 0 : wrong(sw, words, "server WHAT, disk WHAT");
    }
    if (strcmp(words->v[2], "storm") == 0) {
        uint64_t n;
        char name[NODE_NAME_MAX];
        if (words->n < AT_WORDS + 2 || words_number(words->v[AT_WORDS + 1], &n)) {
            return wrong(sw, words, "storm NAME COUNT");
        }
        for (uint64_t i = 1; i <= n; i++) {
            snprintf(name, sizeof(name), "%.16s%llu", words->v[AT_WORDS], (unsigned long long)i);
            add_name(sw, name);
        }
        return 0;
    }
    if (!command_of(words, &from) || from >= words->n) {
        return wrong(sw, words, "no such command, or no machine in it");
    }
    for (size_t i = from; i < words->n; i++) {
        if (!strchr(words->v[i], '=')) {
            add_name(sw, words->v[i]);
        }
    }
    return 0;
}

static int set_up_at(struct scenario_world *sw, size_t line, struct words *words)
{
    int64_t at;
    const char *job = words_value(words, "job");
    bool joins = strcmp(words->v[2], "join") == 0 || strcmp(words->v[2], "storm") == 0;
    if (joins && jobs_find(&sw->world, job ? job : "default") == NAMES_NONE) {
        return wrong(sw, words, "no job of this name");
    }
    if (words_duration(words->v[1], &at)) {
        return wrong(sw, words, "no time");
    }
    world_at(&sw->world, at, on_command, (uint32_t)line, 0, 0);
    return 0;
}

int commands_set_up(struct scenario_world *sw, size_t line)
{
    struct world *w = &sw->world;
    struct words *words = &sw->lines[line];
    const char *what = words->v[0];
    int rc = -1;
    if (strcmp(what, "config") == 0) {
        rc = set_config(w, words);
    } else if (strcmp(what, "link") == 0) {
        rc = set_link(w, words);
    } else if (strcmp(what, "job") == 0) {
        rc = set_job(w, words);
    } else if (strcmp(what, "run") == 0 && words->n == 2) {
        rc = words_duration(words->v[1], &sw->run_ms);
    } else if (strcmp(what, "show") == 0 || strcmp(what, "hide") == 0) {
        for (size_t i = 1; i < words->n; i++) {
            lines_add(what[0] == 's' ? &sw->shown : &sw->hidden, words->v[i], strlen(words->v[i]));
        }
        rc = 0;
    } else if (strcmp(what, "at") == 0) {
        return set_up_at(sw, line, words);
    }
    return rc ? wrong(sw, words, "not understood") : all_asked(sw, words);
}
