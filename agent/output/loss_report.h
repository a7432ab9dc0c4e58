/* agent/output/loss_report.h: reports lost lines in the log: at once, then with backoff while
 * losses continue, and a total at the end. */
#ifndef TFE_AGENT_OUTPUT_LOSS_REPORT_H
#define TFE_AGENT_OUTPUT_LOSS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"

struct loss_report {
    const char *event;     /* name of the warning */
    const char *end_event; /* name of the final report */
    const char *stream;    /* field "stream", or NULL */
    uint64_t lines;        /* lines lost since the last final report */
    bool is_reported;
    struct tfe_mono again_at; /* earliest time of the next report, because a slow reader alternates
                                 between losing and reading */
    uint32_t pause_ms;
};

/* Adds lost lines. */
void loss_add(struct loss_report *l, uint64_t lines, const char *reason);

/* Ends a period of losses, if one was reported. */
void loss_end(struct loss_report *l);

#endif
