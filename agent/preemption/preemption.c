/* agent/preemption/preemption.c: starts the selected sources and reports the most urgent
 * notice of each kind. */
#include "agent/preemption/preemption.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/preemption/source.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"

const struct notice_intervals notice_intervals_default = {
    .aws_ms = 5000,
    .gce_ms = 1000,
    .gce_wait_s = 300,
    .azure_ms = 1000,
    .azure_first_ms = 125000,
    .file_ms = 500,
    .command_ms = 5000,
    .command_within_ms = 30000,
    .auto_ms = 1000,
    .answer_ms = 5000,
    .info_ms = 10000,
    .quiet_ms = 2000,
};

static const struct source_ops *const table[FROM__COUNT] = {
    [FROM_AWS] = &source_aws,   [FROM_GCE] = &source_gce,         [FROM_AZURE] = &source_azure,
    [FROM_FILE] = &source_file, [FROM_COMMAND] = &source_command, [FROM_SIGNAL] = &source_signal,
};

/* Attempts per query of a fact; a service may be busy while a machine starts. Afterwards the fact
 * is omitted. */
#define TRIES 4

/* Queries of the facts about this machine, sent one after the other. */
struct cloud_query {
    struct source_poll poll;            /* must be first: a poll is cast to its cloud_query */
    const struct source_query *current; /* current query */
    unsigned failures;                  /* failures of the current query */
    struct cloud_info info;
};

struct notice_watch {
    struct notice_watch_options options;
    notice_fn *on_notice;
    void *ctx;
    struct event *quiet;
    bool is_running;
    bool is_drained;
    bool silence_logged;
    struct cloud_query cloud; /* queries to the first cloud that responds */
    struct source sources[FROM__COUNT];
    /* reported notices by kind; the tag is the name of the source */
    struct source_notice reported[SOURCE_KINDS];
};

/* --- combined notices --- */

static void update_drained(struct notice_watch *all);

static void report_kind(struct notice_watch *all, enum tfe_notice kind,
                        const struct source_notice *active)
{
    struct source_notice *reported = &all->reported[kind];
    const struct agent_notice notice = {.kind = kind,
                                        .deadline = active ? active->deadline : TFE_MONO_NEVER,
                                        .withdrawn = !active,
                                        .uncertain = active && active->is_uncertain};
    if (active) {
        *reported = *active;
    } else {
        reported->is_active = false;
    }
    update_drained(all);
    all->on_notice(all->ctx, &notice, reported->tag);
}

/* Reports the notice of a kind with the earliest deadline of all sources. */
static void update_kind(struct notice_watch *all, enum tfe_notice kind)
{
    const struct source_notice *reported = &all->reported[kind];
    struct source_notice first = {.is_active = false};
    for (size_t i = 0; i < FROM__COUNT; i++) {
        const struct source_notice *notice = &all->sources[i].notices[kind];
        if (notice->is_active &&
            (!first.is_active || tfe_mono_before(notice->deadline, first.deadline))) {
            first = *notice;
            snprintf(first.tag, sizeof first.tag, "%s", all->sources[i].ops->name);
        }
    }
    if (first.is_active ? !reported->is_active || reported->deadline.ms != first.deadline.ms
                        : reported->is_active) {
        report_kind(all, kind, first.is_active ? &first : NULL);
    }
}

/* --- machine info --- */

static void next_query(struct cloud_query *query)
{
    const struct notice_watch *all = query->poll.source->all;
    const struct cloud_info *f = &query->info;
    query->failures = 0;
    query->current++;
    if (query->current->path) {
        source_poll_after(&query->poll, 0);
        return;
    }
    source_poll_stop(&query->poll);
    log_info("cloud", LOG_S("cloud", f->cloud), LOG_S("zone", f->zone[0] ? f->zone : NULL),
             LOG_S("instance", f->instance[0] ? f->instance : NULL),
             LOG_B(f->has_spot ? "spot" : NULL, f->is_spot));
    all->options.on_cloud(all->ctx, f);
}

static const char *handle_info(struct source_poll *poll, const struct http_response *response)
{
    struct cloud_query *query = (struct cloud_query *)poll;
    if (response->status != 200 && response->status != 404) {
        return "not 200";
    }
    if (response->status == 200 && !query->current->read(&query->info, response)) {
        return "malformed";
    }
    next_query(query);
    return NULL;
}

static void query_failed(struct source_poll *poll, const char *reason)
{
    struct cloud_query *query = (struct cloud_query *)poll;
    log_debug("cloud_fact_failed", LOG_S("at", poll->path), LOG_S("reason", reason));
    if (++query->failures == TRIES) {
        next_query(query);
    }
}

static void send_query(struct source_poll *poll)
{
    const struct cloud_query *query = (struct cloud_query *)poll;
    poll->interval_ms = poll->source->options->intervals->info_ms;
    source_request(poll, query->current->path, &(struct http_request){.method = "GET"},
                   handle_info);
}

static void found(struct notice_watch *all, struct source *s)
{
    if (all->options.on_cloud && s->ops->queries && !all->cloud.poll.source) {
        all->cloud.current = s->ops->queries;
        all->cloud.info.cloud = s->ops->name;
        source_poll_start(&all->cloud.poll, s, send_query);
        all->cloud.poll.failed = query_failed;
    }
}

/* --- drained state --- */

static bool is_warned(const struct notice_watch *all)
{
    bool warned = false;
    for (size_t kind = 1; kind < SOURCE_KINDS; kind++) {
        warned = warned || (kind != NOTICE_REBALANCE && all->reported[kind].is_active);
    }
    return warned;
}

static void set_drained(struct notice_watch *all, bool is_drained)
{
    if (all->is_drained == is_drained) {
        return;
    }
    all->is_drained = is_drained;
    for (size_t i = 0; i < FROM__COUNT; i++) {
        struct source *s = &all->sources[i];
        if (s->all && !s->is_over && s->ops->drained) {
            s->ops->drained(s, is_drained);
        }
    }
}

static void on_quiet(evutil_socket_t fd, short what, void *ctx)
{
    set_drained(ctx, true);
}

/* Updates the drained state after a change of trainers or notices. */
static void update_drained(struct notice_watch *all)
{
    if (all->is_running || !is_warned(all)) {
        evtimer_del(all->quiet);
        set_drained(all, false);
    } else if (!all->is_drained && !evtimer_pending(all->quiet, NULL)) {
        timer_after(all->quiet, all->options.intervals->quiet_ms);
    }
}

void notice_watch_set_running(struct notice_watch *all, bool is_running)
{
    all->is_running = is_running;
    update_drained(all);
}

/* --- creation and destruction --- */

static void start(struct notice_watch *all, struct event_base *base, enum notice_from from)
{
    const enum source_mode mode = all->options.choice->modes[from];
    struct source *s = &all->sources[from];
    if (mode == SOURCE_OFF) {
        return;
    }
    s->own = s->ops->size > 0 ? must_alloc(s->ops->size) : NULL;
    s->all = all;
    s->update_kind = update_kind;
    s->found = found;
    s->silence_logged = &all->silence_logged;
    s->base = base;
    s->options = &all->options;
    if (from <= FROM_AZURE) {
        s->place = all->options.choice->place;
    }
    s->is_found = mode == SOURCE_ON;
    source_start(s);
}

struct notice_watch *notice_watch_new(struct event_base *base,
                                      const struct notice_watch_options *options,
                                      notice_fn *on_notice, void *ctx)
{
    struct notice_watch *all = must_alloc(sizeof *all);
    all->options = *options;
    all->on_notice = on_notice;
    all->ctx = ctx;
    all->quiet = evtimer_new(base, on_quiet, all);
    must_succeed(all->quiet);
    for (size_t i = 0; i < FROM__COUNT; i++) {
        all->sources[i].ops = table[i];
    }
    for (size_t i = 0; i < FROM__COUNT; i++) {
        start(all, base, (enum notice_from)i);
    }
    return all;
}

void notice_watch_free(struct notice_watch *all)
{
    if (!all) {
        return;
    }
    source_poll_stop(&all->cloud.poll);
    for (size_t i = 0; i < FROM__COUNT; i++) {
        struct source *s = &all->sources[i];
        if (s->all) {
            source_stop(s);
            free(s->own);
        }
    }
    event_drop(&all->quiet);
    free(all);
}
