/* server/ctl/agents.c: tfe-ctl agents, revoke-agent: whose session is opened with what, and the end
 * of an agent's own key. */
#include <stdio.h>

#include "common/rows/json.h"
#include "common/rows/kinds.h"
#include "common/rows/table.h"
#include "server/ctl/verb.h"

static int show(const struct ctl_settings *settings, const char *operand, struct row_list *rows)
{
    static const char *const heads[] = {"JOB", "NAME", "NODE", "KEY", "LABEL", "FROM", "EXPIRES"};
    static const struct row_table agents = {&kind_agent_row, heads,
                                            sizeof(heads) / sizeof(heads[0])};
    if (settings->json) {
        return verb_print_json(json_pack("{s:o}", "agents", row_list_json(rows, &kind_agent_row)));
    }
    if (row_table_print(&agents, rows->v, rows->n, 0, stdout) == 0) {
        (void)puts("no agent is connected");
    }
    return 0;
}

const struct ctl_verb ctl_verb_agents = {
    .name = "agents",
    .usage = "tfe-ctl agents [OPTIONS]",
    .about = "show the agents that are connected, and by which keys",
    .is_order = true,
    .says = MSG_AGENTS,
    .rows = {MSG_AGENT_ROW},
    .show = show,
};

const struct ctl_verb ctl_verb_revoke_agent = {
    .name = "revoke-agent",
    .usage = "tfe-ctl revoke-agent [OPTIONS] NODE",
    .about = "end an agent's own key, its session and its place",
    .needs_operand = true,
    .operand = CTL_NODE,
    CTL_SAYS(MSG_REVOKE_AGENT, revoke_agent.node),
    .done = "has no key any more",
};
