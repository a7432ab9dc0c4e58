/* server/ctl/cmd_agents.c: tfe-ctl agents, revoke-agent: lists the sessions of agents and their
 * keys, and revokes an agent's own key. */
#include "common/records/schemas.h"
#include "server/ctl/verb.h"

static int show(const struct ctl_settings *settings, const char *operand, struct record_list *rows)
{
    static const char *const heads[] = {"JOB", "NAME", "NODE", "KEY", "LABEL", "FROM", "EXPIRES"};
    static const struct text_table agents = {&schema_agent_row, heads,
                                             sizeof(heads) / sizeof(heads[0])};
    return verb_show_table(settings, "agents", &agents, rows, "no agent is connected");
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
