/* server/events/throughput.c: computes steps and samples per second. */
#include "server/events/throughput.h"

#define MARK_MS 2000

void throughput_begin(struct throughput *p)
{
    p->n = 0;
}

void throughput_add(struct throughput *p, struct tfe_mono now, uint64_t step, uint64_t samples)
{
    /* A new epoch may resume before the last step of the previous one. */
    const bool is_first = p->n == 0;
    if (!p->has_step || is_first || step > p->step) {
        p->has_step = true;
        p->step = step;
    }
    if (samples > 0 && (is_first || samples > p->samples)) {
        p->samples = samples;
    }
    if (!is_first) {
        const unsigned last = (p->first + p->n - 1) % THROUGHPUT_MARKS;
        if (p->marks[last].samples == 0 && p->n == 1) {
            p->marks[last].samples = p->samples; /* first report of samples in this epoch */
        }
        if (tfe_mono_sub(now, p->marks[last].at) < MARK_MS) {
            return;
        }
    }
    if (p->n == THROUGHPUT_MARKS) {
        p->first = (p->first + 1) % THROUGHPUT_MARKS;
        p->n--;
    }
    const unsigned next = (p->first + p->n++) % THROUGHPUT_MARKS;
    p->marks[next].at = now;
    p->marks[next].step = p->step;
    p->marks[next].samples = samples > 0 || !is_first ? p->samples : 0;
}

/* Returns the seconds since the oldest mark, 0 if too little is known. For a stalled job the time
 * grows, so its rate decreases. */
static double span(const struct throughput *p, struct tfe_mono now)
{
    int64_t ms = p->n > 0 ? tfe_mono_sub(now, p->marks[p->first].at) : 0;
    return ms >= MARK_MS / 2 ? (double)ms / 1000 : 0;
}

bool throughput_steps(const struct throughput *p, struct tfe_mono now, double *ret)
{
    const double s = span(p, now);
    if (s > 0) {
        *ret = (double)(p->step - p->marks[p->first].step) / s;
    }
    return s > 0;
}

bool throughput_samples(const struct throughput *p, struct tfe_mono now, double *ret)
{
    const double s = span(p, now);
    const uint64_t from = p->n > 0 ? p->marks[p->first].samples : 0;
    if (s > 0 && from > 0 && p->samples >= from) {
        *ret = (double)(p->samples - from) / s;
        return true;
    }
    return false;
}
