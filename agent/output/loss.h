/* agent/output/loss.h: lines that are lost: when to say so, and how many. Said at once, again with
 * back-off while it goes on, and in all once it is over. */
#ifndef TFE_AGENT_OUTPUT_LOSS_H
#define TFE_AGENT_OUTPUT_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/backoff.h"
#include "common/base/clock.h"

#define LOSS_AGAIN_FIRST_MS 10000
#define LOSS_AGAIN_LAST_MS 300000

struct loss {
    uint64_t lines; /* since the last that was over, and said */
    bool is_said;
    struct tfe_mono again_at; /* said no sooner: a slow reader loses and takes in turn */
    uint32_t pause_ms;
};

/* So many more; whether to say now that there are l->lines. */
static inline bool loss_add(struct loss *l, uint64_t lines)
{
    struct tfe_mono now = clock_mono();
    l->lines += lines;
    if (tfe_mono_before(now, l->again_at)) {
        return false;
    }
    bool is_old = tfe_mono_sub(now, l->again_at) > LOSS_AGAIN_LAST_MS;
    l->pause_ms = backoff_next(is_old ? 0 : l->pause_ms, LOSS_AGAIN_FIRST_MS, LOSS_AGAIN_LAST_MS);
    l->again_at = tfe_mono_add(now, l->pause_ms);
    l->is_said = true;
    return true;
}

/* There is room again. False: there is nothing to say of it. */
static inline bool loss_end(struct loss *l, uint64_t *ret_lines)
{
    if (!l->is_said) {
        return false;
    }
    *ret_lines = l->lines;
    l->lines = 0;
    l->is_said = false;
    return true;
}

#endif
