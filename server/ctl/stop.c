/* server/ctl/stop.c: tfe-ctl stop: ends a job. */
#include "server/ctl/verb.h"

const struct ctl_verb ctl_verb_stop = {
    .name = "stop",
    .usage = "tfe-ctl stop [OPTIONS] JOB",
    .about = "end a job; its agents exit 1",
    .needs_operand = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_STOP_JOB, stop_job.job),
    .done = "ends now, unless it had ended already",
};
