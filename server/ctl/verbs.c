/* server/ctl/verbs.c: the table of verbs, with all that need no code of their own: lists that are
 * one table, and orders. */
#include "common/cli/option_table.h"
#include "common/records/schemas.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

/* --- lists ------------------------------------------------------------------------------------ */

static const struct ctl_verb pool = {
    .name = "pool",
    .about = "show the pool nodes and their jobs",
    .operation = OPERATION_POOL,
    CTL_COLUMNS(schema_pool_node, "NAME", "NODE", "STATE", "STANDBY", "SINCE", "JOB", "ROLE",
                "HOST", "CORES", "GPUS", "ZONE", "TYPE", "SPOT", "FAILED CHECK", "LABELS"),
    .nothing = "no node is in the pool (tfe-agent --pool)",
};

static const struct ctl_verb bans = {
    .name = "bans",
    .about = "show the deny list: evicted nodes, and until when they are denied",
    .operation = OPERATION_BANS,
    CTL_COLUMNS(schema_ban_row, "JOB", "NAME", "NODE", "KEY", "UNTIL"),
    .nothing = "no node is denied",
};

static const struct ctl_verb agents = {
    .name = "agents",
    .about = "show the connected agents and their keys",
    .operation = OPERATION_AGENTS,
    CTL_COLUMNS(schema_agent_row, "JOB", "NAME", "NODE", "KEY", "LABEL", "FROM", "EXPIRES"),
    .nothing = "no agent is connected",
};

static const struct ctl_verb token_list = {
    .name = "token list",
    .about = "show the server's keys without their secrets",
    .operation = OPERATION_TOKENS,
    CTL_COLUMNS(schema_token_row, "KEY", "ROLE", "JOBS", "LABEL", "ROOT", "USES", "QUOTA",
                "EXPIRES", "STATE"),
};

/* --- orders about jobs ------------------------------------------------------------------------ */

static void set_sizes(const struct ctl_settings *settings, struct tfe_msg *request)
{
    request->u.scale.min_nodes = settings->min_nodes;
    request->u.scale.max_nodes = settings->max_nodes;
    request->u.scale.n_ps = settings->n_ps;
}

static const struct option_spec scale_options[] = {
    NUMBER("ps", n_ps, "N", 1, MSG_NODES_MAX, NULL,
           "number of parameter servers; takes effect at the next checkpoint of a running job"),
};

static const struct ctl_verb scale = {
    .name = "scale",
    .operands = "JOB MIN:MAX",
    .about = "set the minimum and maximum number of nodes of a job",
    .options = scale_options,
    .n_options = sizeof(scale_options) / sizeof(scale_options[0]),
    .takes_sizes = true,
    .operand = CTL_JOB,
    .operation = OPERATION_SCALE,
    .set_request = set_sizes,
    .done = "is scaled",
};

#define JOB_ORDER(ID) .operands = "JOB", .operand = CTL_JOB, .operation = OPERATION_##ID

static const struct ctl_verb grow = {
    .name = "grow",
    JOB_ORDER(GROW),
    .about = "add waiting nodes now, even if work since the last checkpoint is lost",
    .done = "begins its next epoch",
};

static const struct ctl_verb suspend = {
    .name = "suspend",
    JOB_ORDER(SUSPEND),
    .about = "release all nodes of a submitted job; it keeps its position in the queue",
    .done = "is suspended",
};

static const struct ctl_verb resume = {
    .name = "resume",
    JOB_ORDER(RESUME),
    .about = "assign nodes to a suspended job again",
    .done = "continues when nodes are available",
};

static const struct ctl_verb cancel = {
    .name = "cancel",
    JOB_ORDER(CANCEL),
    .about = "end a running or waiting job",
    .done = "is cancelled, unless it had already ended",
};

static const struct ctl_verb restart = {
    .name = "restart",
    JOB_ORDER(RESTART),
    .about = "start the next run of a finished submitted job",
    .done = "waits for nodes, for another run",
};

static const struct ctl_verb forget = {
    .name = "forget",
    JOB_ORDER(FORGET),
    .about = "delete the record of a finished job",
    .done = "is forgotten",
};

/* --- orders about nodes and the server -------------------------------------------------------- */

#define NODE_ORDER(ID) .operands = "NODE", .operand = CTL_NODE, .operation = OPERATION_##ID

static void set_for(const struct ctl_settings *settings, struct tfe_msg *request)
{
    request->u.evict.for_ms = settings->for_ms;
}

static const struct option_spec evict_options[] = {
    TIME("for", for_ms, 0, MSG_DURATION_MAX_MS, "1h",
         "time for which nodes with its token and label are denied; 0: deny only this process"),
};

static const struct ctl_verb evict = {
    .name = "evict",
    NODE_ORDER(EVICT),
    .about = "remove a node from its job at once, even if it does not respond",
    .options = evict_options,
    .n_options = sizeof(evict_options) / sizeof(evict_options[0]),
    .set_request = set_for,
    .done = "was evicted from its job",
};

static const struct ctl_verb unban = {
    .name = "unban",
    NODE_ORDER(UNBAN),
    .about = "permit an evicted node to join again",
    .done = "may join again",
};

static const struct ctl_verb revoke_agent = {
    .name = "revoke-agent",
    NODE_ORDER(REVOKE_AGENT),
    .about = "revoke an agent's own key and end its session",
    .done = "lost its key",
};

static const struct ctl_verb token_revoke = {
    .name = "token revoke",
    .operands = "KEY",
    .operand = CTL_KEY,
    .about = "revoke a token by its id or label; its sessions end at once",
    .operation = OPERATION_TOKEN_REVOKE,
    .done = "was revoked",
};

static const struct ctl_verb backup = {
    .name = "backup",
    .operands = "NAME",
    .operand = CTL_FILE,
    .about = "copy the server's database to a new file in its --backup-dir",
    .operation = OPERATION_BACKUP,
    .done = "holds a complete copy, in the server's --backup-dir",
};

/* --- the table -------------------------------------------------------------------------------- */

const struct ctl_verb_group ctl_verb_groups[CTL_VERB_GROUPS] = {
    {"Jobs",
     {&ctl_verb_submit, &ctl_verb_jobs, &ctl_verb_status, &ctl_verb_describe, &ctl_verb_watch,
      &ctl_verb_wait, &ctl_verb_logs, &ctl_verb_events, &ctl_verb_epochs, &scale, &grow, &suspend,
      &resume, &cancel, &restart, &forget}},
    {"Nodes", {&ctl_verb_nodes, &pool, &ctl_verb_demand, &ctl_verb_drain, &evict, &unban, &bans}},
    {"Access and server",
     {&agents, &revoke_agent, &ctl_verb_token_create, &token_list, &token_revoke,
      &ctl_verb_token_rotate, &ctl_verb_audit, &backup, &ctl_verb_version}},
};
