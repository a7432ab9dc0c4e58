/* server/ctl/resize.c: tfe-ctl resize: how many nodes a job may have from now on. */
#include "server/ctl/verb.h"

static void say_more(const struct ctl_settings *settings, struct tfe_msg *message)
{
    message->u.resize.min_nodes = settings->min_nodes;
    message->u.resize.max_nodes = settings->max_nodes;
}

const struct ctl_verb ctl_verb_resize = {
    .name = "resize",
    .usage = "tfe-ctl resize [OPTIONS] JOB MIN:MAX",
    .about = "let a job have so many nodes from now on, whatever its agents ask for",
    .needs_operand = true,
    .takes_sizes = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_RESIZE, resize.job),
    .say_more = say_more,
    .done = "is resized",
};
