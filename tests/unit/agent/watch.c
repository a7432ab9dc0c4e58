/* tests/unit/agent/watch.c: implementation of watch.h. */
#include "tests/unit/agent/watch.h"

/* A hundred times faster than in production, except for timeouts that a busy machine may exceed. */
static const struct notice_intervals watch_pace = {
    .aws_ms = 20,
    .gce_ms = 10,
    .gce_wait_s = 1,
    .azure_ms = 10,
    .azure_first_ms = 5000,
    .file_ms = 10,
    .command_ms = 10,
    .command_within_ms = 5000,
    .auto_ms = 5000,
    .answer_ms = 5000,
    .info_ms = 10,
    .quiet_ms = 50,
};

static void watch_on_notice(void *ctx, const struct agent_notice *notice, const char *from)
{
    struct watch *w = ctx;
    w->told++;
    w->last[notice->kind] = *notice;
    w->n[notice->kind]++;
    (void)snprintf(w->from, sizeof w->from, "%s", from);
    if (w->runs_when_told) {
        notice_watch_set_running(w->notices, true);
    }
}

static void watch_on_cloud(void *ctx, const struct cloud_info *facts)
{
    struct watch *w = ctx;
    w->cloud = *facts;
    w->clouds++;
}

void watch_init(struct watch *w)
{
    memset(w, 0, sizeof *w);
    w->intervals = watch_pace;
    w->base = event_base_new();
    assert_non_null(w->base);
}

void watch_start(struct watch *w, const char *notice)
{
    struct tfe_reason reason;
    const struct notice_watch_options options = {.choice = &w->choice,
                                                 .intervals = &w->intervals,
                                                 .options = &agent_options,
                                                 .grace_ms = GRACE_MS,
                                                 .on_cloud = watch_on_cloud};
    if (notice_selection_parse(&w->choice, notice, &reason)) {
        fail_msg("%s", reason.text);
    }
    notice_selection_complete(&w->choice, "/");
    w->notices = notice_watch_new(w->base, &options, watch_on_notice, w);
}

void watch_done(struct watch *w)
{
    notice_watch_free(w->notices);
    event_base_free(w->base);
}

void watch_turn(struct watch *w)
{
    const struct timeval tick = {.tv_usec = 2000};
    (void)event_base_loopexit(w->base, &tick);
    (void)event_base_loop(w->base, EVLOOP_ONCE);
}

void watch_for(struct watch *w, int64_t ms)
{
    const int64_t end = rig_ms() + ms;
    while (rig_ms() < end) {
        watch_turn(w);
    }
}

bool watch_is_ahead(struct tfe_mono deadline, int64_t ms)
{
    const int64_t off = tfe_mono_sub(deadline, clock_mono()) - ms;
    return !tfe_mono_is_never(deadline) && off > -10000 && off < 10000;
}
