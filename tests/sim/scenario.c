/* tests/sim/scenario.c: runs a scenario: a short text in, a trace with virtual times out. */
#include "tests/sim/scenario.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/rdzv.h"
#include "tests/job_options.h"
#include "tests/sim/check.h"
#include "tests/sim/disk.h"
#include "tests/sim/jobs.h"
#include "tests/sim/judge.h"
#include "tests/sim/net.h"
#include "tests/sim/node.h"
#include "tests/sim/probing.h"
#include "tests/sim/server.h"

/* Separator between commands and expected trace. */
#define MARK "---"

/* Kinds of frequent trace lines that are hidden unless `show` names them. */
static const char *const hidden_at_first[] = {
    "node_ready",     "node_listening",  "ready",         "joined",
    "trainer_exited", "connection_lost", "node_verified", "node_unverified",
};

void lines_add(struct scenario_lines *lines, const char *text, size_t n)
{
    lines->v = sim_grow(lines->v, lines->n, &lines->cap, sizeof(*lines->v));
    char *line = sim_alloc(n + 1, 1);
    memcpy(line, text, n);
    lines->v[lines->n++] = line;
}

void lines_done(struct scenario_lines *lines)
{
    for (size_t i = 0; i < lines->n; i++) {
        free(lines->v[i]);
    }
    free(lines->v);
    *lines = (struct scenario_lines){0};
}

static char *read_all(const char *path, size_t *ret_n)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        return NULL;
    }
    char *text = NULL;
    size_t cap = 0;
    size_t n = 0;
    int c;
    while ((c = getc(file)) != EOF) {
        text = sim_grow(text, n, &cap, 1);
        text[n++] = (char)c;
    }
    fclose(file);
    *ret_n = n;
    return sim_grow(text, n, &cap, 1);
}

int scenario_load(struct scenario *s, const char *path)
{
    *s = (struct scenario){0};
    size_t n;
    s->text = read_all(path, &n);
    if (!s->text) {
        return -1;
    }
    s->text_n = n;
    bool below = false;
    for (size_t at = 0; at < n;) {
        const char *line = s->text + at;
        const char *end = memchr(line, '\n', n - at);
        size_t length = end ? (size_t)(end - line) : n - at;
        if (below) {
            lines_add(&s->expected, line, length);
        } else if (length == strlen(MARK) && memcmp(line, MARK, length) == 0) {
            below = true;
            s->text_n = at;
        }
        at += length + 1;
    }
    return 0;
}

void scenario_done(struct scenario *s)
{
    free(s->text);
    lines_done(&s->expected);
    lines_done(&s->got);
}

int scenario_accept(const struct scenario *s, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return -1;
    }
    fwrite(s->text, 1, s->text_n, file);
    if (s->text_n && s->text[s->text_n - 1] != '\n') {
        fputc('\n', file);
    }
    fputs(MARK "\n", file);
    for (size_t i = 0; i < s->got.n; i++) {
        fprintf(file, "%s\n", s->got.v[i]);
    }
    if (fclose(file)) {
        perror(path);
        return -1;
    }
    return 0;
}

/* --- running --- */

static void on_line(void *ctx, const char *line)
{
    struct scenario *s = ctx;
    lines_add(&s->got, line, strlen(line));
}

struct both {
    struct scenario *scenario;
    struct scenario_world *sw;
};

static void on_line_of_both(void *ctx, const char *line)
{
    on_line(((struct both *)ctx)->scenario, line);
}

static bool is_in(const struct scenario_lines *lines, const char *word)
{
    for (size_t i = 0; i < lines->n; i++) {
        if (strcmp(lines->v[i], word) == 0 || strcmp(lines->v[i], "all") == 0) {
            return true;
        }
    }
    return false;
}

static bool is_hidden(void *ctx, const char *what)
{
    const struct scenario_world *sw = ((struct both *)ctx)->sw;
    if (is_in(&sw->shown, what)) {
        return false;
    }
    if (is_in(&sw->hidden, what)) {
        return true;
    }
    for (size_t i = 0; i < sizeof(hidden_at_first) / sizeof(hidden_at_first[0]); i++) {
        if (strcmp(hidden_at_first[i], what) == 0) {
            return true;
        }
    }
    return false;
}

static int read_commands(struct scenario *s, struct scenario_world *sw)
{
    unsigned number = 0;
    for (size_t at = 0; at < s->text_n;) {
        const char *line = s->text + at;
        const char *end = memchr(line, '\n', s->text_n - at);
        size_t length = end ? (size_t)(end - line) : s->text_n - at;
        at += length + 1;
        number++;
        sw->lines = sim_grow(sw->lines, sw->n_lines, &sw->cap_lines, sizeof(*sw->lines));
        struct words *words = &sw->lines[sw->n_lines];
        if (words_split(words, line, length, number)) {
            fprintf(stderr, "%s:%u: too long a line\n", sw->path, number);
            return -1;
        }
        if (words->n > 0) {
            sw->n_lines++;
        }
    }
    /* The words point into their own lines, which have moved while lines were added. */
    for (size_t i = 0; i < sw->n_lines; i++) {
        struct words *words = &sw->lines[i];
        char *at = words->text;
        for (size_t w = 0; w < words->n; w++) {
            at += strspn(at, " \t");
            words->v[w] = at;
            at += strlen(at) + 1;
        }
    }
    return 0;
}

static int build(struct scenario_world *sw)
{
    struct world *w = &sw->world;
    for (size_t i = 0; i < sw->n_lines; i++) {
        if (commands_collect(sw, &sw->lines[i])) {
            return -1;
        }
    }
    w->check = check_new();
    nodes_new(w, (uint32_t)sw->names.n);
    for (uint32_t i = 0; i < sw->names.n; i++) {
        node_name(w, i, sw->names.v[i]);
    }
    net_new(w, (uint32_t)sw->names.n);
    jobs_new(w);
    struct rdzv_config config = {.ttl_ms = 10000,
                                 .defaults = default_options(),
                                 .gather_max_ms = 30000,
                                 .exit_grace_ms = 60000,
                                 .max_sessions = (uint32_t)(4 * sw->names.n + 64)};
    server_new(w, &config);
    disk_new(w);
    disk_set_latency(w, 2, 2);
    for (size_t i = 0; i < sw->n_lines; i++) {
        if (commands_set_up(sw, i)) {
            return -1;
        }
    }
    server_start(w);
    return 0;
}

/* Writes the final state. */
static void sum_up(struct world *w)
{
    for (uint32_t i = 0; i < jobs_count(w); i++) {
        const struct job *job = jobs_get(w, i);
        struct cluster_view view = trainers_of_job(w, i);
        struct msg_status_job status = {.phase = "unknown to the server"};
        const struct rdzv *core = server_core(w);
        const char *after = NULL;
        while (core && rdzv_view_job(core, after, &status) == 0) {
            after = status.job;
            if (strcmp(status.job, job->name.text) == 0) {
                break;
            }
            status = (struct msg_status_job){.phase = "unknown to the server"};
        }
        world_trace(w, "end", job->name.text,
                    "%s epoch=%llu restarts=%u; trainers up %u of %u, step %llu reached",
                    status.phase, (unsigned long long)status.epoch, status.restarts, view.up,
                    view.world, (unsigned long long)job->reached);
    }
}

static void demolish(struct scenario_world *sw)
{
    struct world *w = &sw->world;
    if (w->server) {
        server_free(w);
        disk_free(w);
        probing_free(w);
        trainers_free(w);
        judge_free(w);
        nodes_free(w);
        jobs_free(w);
        net_free(w);
    }
    check_free(w->check);
    world_done(w);
    free(sw->lines);
    lines_done(&sw->names);
    lines_done(&sw->shown);
    lines_done(&sw->hidden);
    free(sw);
}

int scenario_run(struct scenario *s, const char *path, bool verbose)
{
    struct scenario_world *sw = sim_alloc(1, sizeof(*sw));
    struct both both = {.scenario = s, .sw = sw};
    struct world *w = &sw->world;
    sw->path = path;
    sw->run_ms = 60000;
    world_init(w, &(struct sim_options){.seed = 1, .verbose = verbose});
    w->on_line = on_line_of_both;
    w->is_hidden = is_hidden;
    w->on_line_ctx = &both;
    if (read_commands(s, sw) || build(sw)) {
        demolish(sw);
        return -1;
    }
    world_run(w, sw->run_ms);
    if (sw->is_wrong) {
        demolish(sw);
        return -1;
    }
    if (check_failed(w->check)) {
        s->violated = true;
        world_trace(w, "VIOLATION", check_failed_rule(w->check), "%s", check_failed_text(w->check));
    } else {
        sum_up(w);
    }
    demolish(sw);
    return 0;
}
