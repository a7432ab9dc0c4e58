/* agent/output/loss_report.c: implementation of loss_report.h. */
#include "agent/output/loss_report.h"

#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/cli/log.h"

#define AGAIN_FIRST_MS 10000
#define AGAIN_LAST_MS 300000

void loss_add(struct loss_report *l, uint64_t lines, const char *reason)
{
    struct tfe_mono now = clock_mono();
    l->lines += lines;
    if (tfe_mono_before(now, l->again_at)) {
        return;
    }
    bool is_old = tfe_mono_sub(now, l->again_at) > AGAIN_LAST_MS;
    l->pause_ms = backoff_next(is_old ? 0 : l->pause_ms, AGAIN_FIRST_MS, AGAIN_LAST_MS);
    l->again_at = tfe_mono_add(now, l->pause_ms);
    l->is_reported = true;
    log_warn(l->event, LOG_S("stream", l->stream), LOG_U("lost_lines", l->lines),
             LOG_S("reason", reason));
}

void loss_end(struct loss_report *l)
{
    if (l->is_reported) {
        log_info(l->end_event, LOG_S("stream", l->stream), LOG_U("lost_lines", l->lines));
        l->lines = 0;
        l->is_reported = false;
    }
}
