/* server/ctl/evict.c: tfe-ctl evict: takes a node out of its job at once. */
#include "server/ctl/order.h"
#include "server/ctl/verb.h"

static int run(const struct ctl_settings *settings, char **operands, int n_operands)
{
    (void)n_operands; /* one, by the table below */
    if (!order_node_is_sound(operands[0])) {
        return CTL_USAGE;
    }
    struct order order = {.msg = {.type = MSG_EVICT, .u.evict = {.node = operands[0]}},
                          .verb = "evict",
                          .key = "node",
                          .operand = operands[0],
                          .sentence = "was evicted from its job"};
    return order_run(settings, &order);
}

const struct ctl_verb ctl_verb_evict = {
    .name = "evict",
    .usage = "tfe-ctl evict [OPTIONS] NODE",
    .about = "take a node out of its job at once, whether it answers or not",
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
