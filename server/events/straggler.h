/* server/events/straggler.h: which machine the others wait for: its step beside the others' median.
 */
#ifndef TFE_SERVER_EVENTS_STRAGGLER_H
#define TFE_SERVER_EVENTS_STRAGGLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/message/msg.h"

/* What is known of one node. */
struct slow {
    uint64_t own_us, others_us; /* compared */
    uint32_t times_milli;       /* one of the other, times 1000; 0: not known */
    uint8_t in_a_row;           /* judgements that found it slow */
    bool is_slow;
    bool by_work; /* what is compared is work, not the whole step */
};

struct straggler_detector {
    uint64_t *steps, *works; /* n_steps and n_works of them, sorted */
    size_t n_steps, n_works;
    bool by_work;
};

/* For n nodes at most. TFE_ENOMEM. */
int straggler_begin(struct straggler_detector *j, size_t n) TFE_MUST_CHECK;
void straggler_add(struct straggler_detector *j, const struct msg_vitals *vitals);
void straggler_sort(struct straggler_detector *j);
/* One of those that were added; vitals NULL: nothing is known of it any more. */
void straggler_detector(const struct straggler_detector *j, const struct msg_vitals *vitals,
                        struct slow *at);
void straggler_end(struct straggler_detector *j);

/* Whether to say that it is slow, or is not any more. Of whom nothing is known now, as where an
 * epoch begins, nothing is said. */
static inline bool straggler_changed(const struct slow *was, const struct slow *is)
{
    return is->is_slow != was->is_slow && is->times_milli > 0;
}

/* "410 ms", "2.5 s"; in room. */
const char *straggler_duration_text(uint64_t us, char room[32]);

#endif
