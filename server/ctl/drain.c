/* server/ctl/drain.c: tfe-ctl drain: takes a node out of its job in an orderly way. */
#include "server/ctl/order.h"
#include "server/ctl/verb.h"

static int run(const struct ctl_settings *settings, char **operands, int n_operands)
{
    (void)n_operands; /* one, by the table below */
    if (!order_node_is_sound(operands[0])) {
        return CTL_USAGE;
    }
    struct order order = {.msg = {.type = MSG_DRAIN, .u.drain = {.node = operands[0], .within_ms = MSG_UNSET}},
                          .verb = "drain",
                          .key = "node",
                          .operand = operands[0],
                          .sentence = "leaves its job; its agent will exit 0"};
    return order_run(settings, &order);
}

const struct ctl_verb ctl_verb_drain = {
    .name = "drain",
    .usage = "tfe-ctl drain [OPTIONS] NODE",
    .about = "take a node out of its job in an orderly way",
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
