/* server/ctl/cmd_scale.c: tfe-ctl scale, suspend, resume, cancel, restart: orders about one job. */
#include "common/cli/option_table.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

static void say_sizes(const struct ctl_settings *settings, struct tfe_msg *message)
{
    message->u.scale.min_nodes = settings->min_nodes;
    message->u.scale.max_nodes = settings->max_nodes;
    message->u.scale.n_ps = settings->n_ps;
}

static const struct option_spec scale_options[] = {
    NUMBER("ps", n_ps, "N", 1, MSG_NODES_MAX, NULL,
           "and so many parameter servers; while the job runs, from the next checkpoint on"),
};

const struct ctl_verb ctl_verb_scale = {
    .name = "scale",
    .usage = "tfe-ctl scale [OPTIONS] JOB MIN:MAX",
    .about = "let a job have so many nodes from now on, whatever its agents ask for",
    .options = scale_options,
    .n_options = sizeof(scale_options) / sizeof(scale_options[0]),
    .needs_operand = true,
    .takes_sizes = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_SCALE, scale.job),
    .say_more = say_sizes,
    .done = "is scaled",
};

const struct ctl_verb ctl_verb_suspend = {
    .name = "suspend",
    .usage = "tfe-ctl suspend [OPTIONS] JOB",
    .about = "take all nodes from a submitted job; it keeps its place in the queue",
    .needs_operand = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_SUSPEND, suspend.job),
    .done = "is suspended",
};

const struct ctl_verb ctl_verb_resume = {
    .name = "resume",
    .usage = "tfe-ctl resume [OPTIONS] JOB",
    .about = "let a suspended job have nodes again",
    .needs_operand = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_RESUME, resume.job),
    .done = "goes on as soon as there are nodes for it",
};

const struct ctl_verb ctl_verb_cancel = {
    .name = "cancel",
    .usage = "tfe-ctl cancel [OPTIONS] JOB",
    .about = "end a job, whether it runs or waits",
    .needs_operand = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_CANCEL, cancel.job),
    .done = "is cancelled, unless it had ended already",
};

const struct ctl_verb ctl_verb_restart = {
    .name = "restart",
    .usage = "tfe-ctl restart [OPTIONS] JOB",
    .about = "begin the next run of a submitted job that is over",
    .needs_operand = true,
    .operand = CTL_JOB,
    CTL_SAYS(MSG_RERUN, rerun.job),
    .done = "waits for nodes, for another run",
};
