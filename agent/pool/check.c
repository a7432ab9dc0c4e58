/* agent/pool/check.c: which options go with --pool, and what they call a node. */
#include "agent/pool/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

int pool_check(const struct agent_settings *settings, int n_operands, struct tfe_why *why)
{
    const char *other = settings->standalone       ? "--standalone"
                        : settings->agent.run_key  ? "--run"
                        : settings->agent.new_run  ? "--new-run"
                        : settings->agent.has_role ? "--role"
                        : settings->no_python      ? "--no-python"
                        : settings->module         ? "--module"
                        : n_operands > 0           ? "a script, which its jobs bring"
                        : settings->slots > 1 && settings->address_port
                            ? "--slots and a port in --address"
                        : settings->slots > 1 && settings->on_finish
                            ? "--slots and --on-finish, as each of them leaves by itself"
                            : NULL;
    if (other) {
        why_set(why, "--pool waits for jobs that are handed in: it does not go with %s", other);
        return TFE_EINVAL;
    }
    if (settings->runtime != RUNTIME_NONE && geteuid() != 0) {
        why_set(why, "--runtime: only root can enter a container");
        return TFE_EINVAL;
    }
    return 0;
}

void pool_name(const struct agent_settings *settings, uint32_t slot, char ret[TFE_LABEL_MAX + 1])
{
    const char *name = settings->agent.node_name;
    char host[TFE_LABEL_MAX + 1] = "?";
    if (!name) {
        (void)gethostname(host, sizeof host - 1);
        name = host;
    }
    if (slot > 0) {
        (void)snprintf(ret, TFE_LABEL_MAX + 1, "%.*s-%" PRIu32, (int)(TFE_LABEL_MAX - 12), name,
                       slot);
    } else {
        (void)snprintf(ret, TFE_LABEL_MAX + 1, "%s", name);
    }
}
