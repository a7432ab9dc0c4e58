/* server/events/straggler.h: detects stragglers: nodes whose step time exceeds the others'
 * median. */
#ifndef TFE_SERVER_EVENTS_STRAGGLER_H
#define TFE_SERVER_EVENTS_STRAGGLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"

/* Result for one node. */
struct straggler {
    uint64_t own_us, others_us; /* compared times: the node's own, and the others' median */
    uint32_t times_milli;       /* ratio of both, times 1000; 0 if unknown */
    uint8_t slow_checks;        /* consecutive checks that found the node slow */
    bool is_slow;
    bool by_work; /* CPU time was compared instead of step time */
};

struct straggler_detector {
    uint64_t *steps, *works; /* n_steps and n_works values, sorted */
    size_t n_steps, n_works;
    bool by_work;
};

/* Begins a check of at most n nodes. Returns 0 or TFE_ENOMEM. */
int straggler_begin(struct straggler_detector *j, size_t n) TFE_MUST_CHECK;
void straggler_add(struct straggler_detector *j, const struct msg_machine_stats *machine_stats);
void straggler_sort(struct straggler_detector *j);
/* Updates the result of a node that was added; machine_stats is NULL if nothing is known of it any
 * more. */
void straggler_update(const struct straggler_detector *j,
                      const struct msg_machine_stats *machine_stats, struct straggler *at);
void straggler_end(struct straggler_detector *j);

/* True if a change is to be reported: the node became a straggler or recovered, and its ratio is
 * known. */
static inline bool straggler_changed(const struct straggler *was, const struct straggler *is)
{
    return is->is_slow != was->is_slow && is->times_milli > 0;
}

/* Formats a duration as "410 ms" or "2.5 s" in buf. */
const char *straggler_duration_text(uint64_t us, char buf[32]);

#endif
