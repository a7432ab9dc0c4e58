/* server/ctl/drain.c: tfe-ctl drain: takes a node out of its job in an orderly way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/ctl/order.h"
#include "server/ctl/status.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

/* Between two looks at whether the node has left. */
#define LOOK_NS 250000000L

/* Whether a node of this id or label is still on its way out. */
static bool is_leaving(const struct snapshot *s, const char *name)
{
    for (size_t i = 0; i < s->n_nodes; i++) {
        const struct msg_status_node *node = &s->nodes[i];
        if (node->role == ROLE_LEAVING &&
            (strcmp(node->node, name) == 0 || strcmp(node->name, name) == 0)) {
            return true;
        }
    }
    return false;
}

static int wait_for(const struct ctl_settings *settings, const char *name)
{
    for (;;) {
        struct snapshot snapshot = {.jobs = NULL};
        int status = status_ask(settings, NULL, &snapshot);
        bool goes_on = status == EXIT_SUCCESS && is_leaving(&snapshot, name);
        snapshot_done(&snapshot);
        if (!goes_on) {
            return status;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
}

static int run(const struct ctl_settings *settings, char **operands, int n_operands)
{
    (void)n_operands; /* one, by the table below */
    if (!order_node_is_sound(operands[0])) {
        return CTL_USAGE;
    }
    struct order order = {
        .msg = {.type = MSG_DRAIN, .u.drain = {.node = operands[0], .within_ms = settings->in_ms}},
        .verb = "drain",
        .key = "node",
        .operand = operands[0],
        .sentence = "leaves its job; its agent will exit 0"};
    int status = order_run(settings, &order);
    return status == EXIT_SUCCESS && settings->wait ? wait_for(settings, operands[0]) : status;
}

static const struct option_spec options[] = {
    {.name = "in",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .help = "it has to be gone so soon, saved or not (default: 30s to save for scripts that can)",
     .offset = FIELD(in_ms),
     .min = 0,
     .max = MSG_DURATION_MAX_MS},
    {.name = "wait", .kind = OPTION_FLAG, .help = "return once it has left", .offset = FIELD(wait)},
};

const struct ctl_verb ctl_verb_drain = {
    .name = "drain",
    .usage = "tfe-ctl drain [OPTIONS] NODE",
    .about = "take a node out of its job in an orderly way",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .operands_min = 1,
    .operands_max = 1,
    .run = run,
};
