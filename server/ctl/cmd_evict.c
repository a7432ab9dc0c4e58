/* server/ctl/cmd_evict.c: tfe-ctl evict: removes a node from its job at once. */
#include "common/cli/option_table.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

static void say_more(const struct ctl_settings *settings, struct tfe_msg *message)
{
    message->u.evict.for_ms = settings->for_ms;
}

static const struct option_spec options[] = {
    TIME("for", for_ms, 0, MSG_DURATION_MAX_MS, "1h",
         "nobody of its token and label joins the job for so long; 0: only not this process"),
};

const struct ctl_verb ctl_verb_evict = {
    .name = "evict",
    .usage = "tfe-ctl evict [OPTIONS] NODE",
    .about = "take a node out of its job at once, whether it answers or not",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .needs_operand = true,
    .operand = CTL_NODE,
    CTL_SAYS(MSG_EVICT, evict.node),
    .say_more = say_more,
    .done = "was evicted from its job",
};
