/* server/ctl/progress_line.h: the progress of a job in one line. */
#ifndef TFE_SERVER_CTL_PROGRESS_LINE_H
#define TFE_SERVER_CTL_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/message/msg.h"

#define PROGRESS_LINE_MAX 1024

/* What is known about the progress; negative numbers are unknown. Texts are borrowed. */
struct progress {
    const char *state;
    const char *waits;
    uint64_t epoch;
    double step, total, per_s;
};

/* Returns the progress of a STATUS_JOB record. */
struct progress progress_of(const struct msg_status_job *job);

/* Writes "epoch 3  [#####....]  412/1000 steps  12.5/s  47s left", as far as it is known and fits
 * the width; or what the job waits for if it does not train. */
void progress_line(const struct progress *p, int width, bool utf8, char ret[PROGRESS_LINE_MAX]);

#endif
