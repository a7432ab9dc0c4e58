/* server/ctl/resize.c: tfe-ctl resize: how many nodes a job may have from now on. */
#include "common/net/option_table.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

static void say_more(const struct ctl_settings *settings, struct tfe_msg *message)
{
    message->u.resize.min_nodes = settings->min_nodes;
    message->u.resize.max_nodes = settings->max_nodes;
    message->u.resize.n_ps = settings->n_ps;
}

static const struct option_spec options[] = {
    NUMBER("ps", n_ps, "N", 1, MSG_NODES_MAX, NULL,
           "and so many parameter servers, from the next checkpoint on"),
};

const struct ctl_verb ctl_verb_resize = {
    .name = "resize",
    .usage = "tfe-ctl resize [OPTIONS] JOB MIN:MAX",
    .about = "let a job have so many nodes from now on, whatever its agents ask for",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .needs_operand = true,
    .takes_sizes = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_RESIZE, resize.job),
    .say_more = say_more,
    .done = "is resized",
};
