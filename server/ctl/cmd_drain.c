/* server/ctl/cmd_drain.c: tfe-ctl drain: removes a node from its job by a planned switch. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/cli/option_table.h"
#include "common/records/schemas.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

/* Interval of checks whether the node has left. */
#define LOOK_NS 250000000L

static void say_more(const struct ctl_settings *settings, struct tfe_msg *drain)
{
    drain->u.drain.within_ms = settings->in_ms;
}

/* Returns true if a node with this id or label is still leaving. */
static bool is_leaving(const struct record_list *rows, const char *name)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct msg_status_node *node = rows->v[i].at;
        if (rows->v[i].schema == &schema_node && node->role == ROLE_LEAVING &&
            (strcmp(node->node, name) == 0 || strcmp(node->name, name) == 0)) {
            return true;
        }
    }
    return false;
}

/* Waits for the node to leave (--wait). */
static int after(const struct ctl_settings *settings, const char *name)
{
    bool goes_on = settings->wait;
    int status = EXIT_SUCCESS;
    while (goes_on) {
        struct record_list rows = {.v = NULL};
        status = verb_ask(&ctl_verb_status, settings, NULL, &rows);
        goes_on = status == EXIT_SUCCESS && is_leaving(&rows, name);
        record_list_done(&rows);
        if (goes_on) {
            (void)nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        }
    }
    return status;
}

static const struct option_spec options[] = {
    TIME("in", in_ms, 0, MSG_DURATION_MAX_MS, NULL,
         "it has to be gone so soon, saved or not (default: 30s to save for scripts that can)"),
    FLAG("wait", wait, "return once it has left"),
};

const struct ctl_verb ctl_verb_drain = {
    .name = "drain",
    .usage = "tfe-ctl drain [OPTIONS] NODE",
    .about = "take a node out of its job in an orderly way",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .needs_operand = true,
    .operand = CTL_NODE,
    CTL_SAYS(MSG_DRAIN, drain.node),
    .say_more = say_more,
    .done = "leaves its job; its agent will exit 0",
    .after = after,
};
