/* server/ctl/cmd_forget.c: tfe-ctl forget: deletes the records of a finished job. */
#include "server/ctl/verb.h"

const struct ctl_verb ctl_verb_forget = {
    .name = "forget",
    .usage = "tfe-ctl forget [OPTIONS] JOB",
    .about = "remove what is remembered of a job that is over",
    .needs_operand = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_FORGET, forget.job),
    .done = "is forgotten",
};
