/* server/ctl/progress_line.c: the progress of a job in one line. */
#include "server/ctl/progress_line.h"

#include <stdio.h>
#include <string.h>

#include "common/records/text_table.h"
#include "common/text/utf8.h"

#define BAR_MAX 40

struct progress progress_of(const struct msg_status_job *job)
{
    return (struct progress){.state = msg_job_state_name(job->state),
                             .waits = job->waits,
                             .epoch = job->epoch,
                             .step = job->has_step ? (double)job->step : -1,
                             .total = job->total > 0 ? (double)job->total : -1,
                             .per_s = job->has_steps_per_s ? job->steps_per_s : -1};
}

/* Number of full columns of the bar; less than all before the job is done. */
static int filled(const struct progress *p, int columns)
{
    double part = p->step / p->total;
    return part >= 1 ? columns : part <= 0 ? 0 : (int)(part * columns);
}

static size_t put_bar(char *ret, size_t cap, const struct progress *p, int columns, bool utf8)
{
    size_t n = (size_t)snprintf(ret, cap, "[");
    for (int i = 0; i < columns; i++) {
        const char *full = utf8 ? "\xe2\x96\x88" : "#";
        n += (size_t)snprintf(ret + n, cap - n, "%s", i < filled(p, columns) ? full : ".");
    }
    return n + (size_t)snprintf(ret + n, cap - n, "]  ");
}

/* Cuts text to this many columns; one UTF-8 character counts as one column. */
static void cut(char *text, int width)
{
    int columns = 0;
    char *at = text;
    while (*at != '\0' && columns < width) {
        size_t n = utf8_length(at, strlen(at));
        at += n > 0 ? n : 1;
        columns++;
    }
    *at = '\0';
}

void progress_line(const struct progress *p, int width, bool utf8, char ret[PROGRESS_LINE_MAX])
{
    char buf[RECORD_TEXT_MAX];
    const size_t cap = PROGRESS_LINE_MAX;
    size_t n =
        (size_t)snprintf(ret, cap, "%s, epoch %llu  ", p->state, (unsigned long long)p->epoch);
    if (p->step >= 0 && p->total > 0) {
        int columns = width / 3 < BAR_MAX ? width / 3 : BAR_MAX;
        n += put_bar(ret + n, cap - n, p, columns, utf8);
        n += (size_t)snprintf(ret + n, cap - n, "%.0f/%.0f steps  ", p->step, p->total);
    } else if (p->step >= 0) {
        n += (size_t)snprintf(ret + n, cap - n, "step %.0f  ", p->step);
    }
    if (p->per_s > 0) {
        n += (size_t)snprintf(ret + n, cap - n, "%.3g/s  ", p->per_s);
    }
    if (p->per_s > 0 && p->step >= 0 && p->total > p->step) {
        n += (size_t)snprintf(
            ret + n, cap - n, "%s left  ",
            text_table_duration((int64_t)((p->total - p->step) / p->per_s * 1000), buf));
    }
    if (p->waits && n < cap) {
        (void)snprintf(ret + n, cap - n, "%.600s", p->waits);
    }
    cut(ret, width);
}
