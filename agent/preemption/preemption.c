/* agent/preemption/preemption.c: starts the selected sources and reports the most urgent
 * notice of each kind. */
#include "agent/preemption/preemption.h"

#include <stdlib.h>
#include <string.h>

#include "agent/preemption/cloud_info.h"
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
    .facts_ms = 10000,
    .quiet_ms = 2000,
};

static const struct source_ops *const table[FROM__COUNT] = {
    [FROM_AWS] = &source_aws,   [FROM_GCE] = &source_gce,         [FROM_AZURE] = &source_azure,
    [FROM_FILE] = &source_file, [FROM_COMMAND] = &source_command, [FROM_SIGNAL] = &source_signal,
};

struct notice_watch {
    struct notice_watch_options options;
    notice_fn *on_notice;
    void *ctx;
    struct event *quiet;
    bool is_running;
    bool is_drained;
    bool silence_logged;
    struct cloud_ask cloud; /* queries to the first cloud that responds */
    struct source sources[FROM__COUNT];
    /* reported notices by kind; the tag is the name of the source */
    struct source_notice reported[SOURCE_KINDS];
};

/* --- combined notices --- */

static void update_drained(struct notice_watch *all);

static void report_kind(struct notice_watch *all, enum tfe_notice kind,
                        const struct source_notice *word)
{
    struct source_notice *reported = &all->reported[kind];
    const struct agent_notice notice = {.kind = kind,
                                        .deadline = word ? word->deadline : TFE_MONO_NEVER,
                                        .withdrawn = !word,
                                        .uncertain = word && word->is_uncertain};
    if (word) {
        *reported = *word;
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
    const struct source_notice *most = NULL;
    const char *name = NULL;
    for (size_t i = 0; i < FROM__COUNT; i++) {
        const struct source_notice *word = &all->sources[i].notices[kind];
        if (word->is_active && (!most || tfe_mono_before(word->deadline, most->deadline))) {
            most = word;
            name = all->sources[i].ops->name;
        }
    }
    if (most) {
        struct source_notice now = *most;
        memset(now.tag, 0, sizeof now.tag);
        memcpy(now.tag, name, strlen(name));
        if (!reported->is_active || reported->deadline.ms != now.deadline.ms) {
            report_kind(all, kind, &now);
        }
    } else if (reported->is_active) {
        report_kind(all, kind, NULL);
    }
}

/* --- machine facts --- */

static void on_cloud(void *ctx, const struct cloud_facts *facts)
{
    const struct notice_watch *all = ctx;
    all->options.on_cloud(all->ctx, facts);
}

static void found(struct notice_watch *all, struct source *s)
{
    if (all->options.on_cloud && s->ops->facts && !all->cloud.poll.source) {
        cloud_ask_start(&all->cloud, s, on_cloud, all);
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
    const enum notice_wanted wanted = all->options.choice->wanted[from];
    struct source *s = &all->sources[from];
    if (wanted == WANTED_NEVER) {
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
    s->is_found = wanted == WANTED_ASKED;
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
    cloud_ask_stop(&all->cloud);
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
