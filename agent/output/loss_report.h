/* agent/output/loss_report.h: rate limit for reports about lost lines: at once, then with backoff
 * while losses continue, and a total at the end. */
#ifndef TFE_AGENT_OUTPUT_LOSS_REPORT_H
#define TFE_AGENT_OUTPUT_LOSS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/backoff.h"
#include "common/base/clock.h"

#define LOSS_AGAIN_FIRST_MS 10000
#define LOSS_AGAIN_LAST_MS 300000

struct loss_report {
    uint64_t lines; /* lines lost since the last final report */
    bool is_reported;
    /* earliest time of the next report, because a slow reader alternates between
     * losing and reading */
    struct tfe_mono again_at;
    uint32_t pause_ms;
};

/* Adds lost lines. Returns true if l->lines should be reported now. */
static inline bool loss_add(struct loss_report *l, uint64_t lines)
{
    struct tfe_mono now = clock_mono();
    l->lines += lines;
    if (tfe_mono_before(now, l->again_at)) {
        return false;
    }
    bool is_old = tfe_mono_sub(now, l->again_at) > LOSS_AGAIN_LAST_MS;
    l->pause_ms = backoff_next(is_old ? 0 : l->pause_ms, LOSS_AGAIN_FIRST_MS, LOSS_AGAIN_LAST_MS);
    l->again_at = tfe_mono_add(now, l->pause_ms);
    l->is_reported = true;
    return true;
}

/* Ends a period of losses. Returns false if no report was made, so that none is needed now. */
static inline bool loss_end(struct loss_report *l, uint64_t *ret_lines)
{
    if (!l->is_reported) {
        return false;
    }
    *ret_lines = l->lines;
    l->lines = 0;
    l->is_reported = false;
    return true;
}

#endif
