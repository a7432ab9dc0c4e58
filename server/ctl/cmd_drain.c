/* server/ctl/cmd_drain.c: tfe-ctl drain: removes a node from its job by a planned switch. */
#include <stdlib.h>
#include <string.h>

#include "common/cli/option_table.h"
#include "common/records/schemas.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

static void set_request(const struct ctl_settings *settings, struct tfe_msg *request)
{
    request->u.drain.within_ms = settings->in_ms;
}

/* Returns true if a node with this id or label is still leaving. */
static bool is_leaving(void *ctx, const struct record_list *rows)
{
    const char *name = ctx;
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
    return settings->wait
               ? verb_poll(settings, OPERATION_STATUS, NULL, is_leaving, (void *)(uintptr_t)name)
               : EXIT_SUCCESS;
}

static const struct option_spec options[] = {
    TIME("in", in_ms, 0, MSG_DURATION_MAX_MS, NULL,
         "maximum time until the node leaves, even without a checkpoint (default: 30s for scripts "
         "that can save)"),
    FLAG("wait", wait, "return when the node has left"),
};

const struct ctl_verb ctl_verb_drain = {
    .name = "drain",
    .operands = "NODE",
    .about = "remove a node from its job after a checkpoint",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .operand = CTL_NODE,
    .operation = OPERATION_DRAIN,
    .set_request = set_request,
    .done = "leaves its job; its agent will exit 0",
    .after = after,
};
