/* server/ctl/cmd_grow.c: tfe-ctl grow: makes a running job include its spares now. */
#include "server/ctl/verb.h"

const struct ctl_verb ctl_verb_grow = {
    .name = "grow",
    .usage = "tfe-ctl grow [OPTIONS] JOB",
    .about = "take in at once who waits for a place, whatever work that costs",
    .needs_operand = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_GROW, grow.job),
    .done = "begins its next epoch",
};
