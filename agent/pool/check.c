/* agent/pool/check.c: which options go with --pool, and what they call a node. */
#include "agent/pool/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/credentials/node_secrets.h"

int pool_check(const struct agent_settings *settings, int n_operands, struct tfe_reason *reason)
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
        reason_set(reason, "--pool waits for jobs that are handed in: it does not go with %s",
                   other);
        return TFE_EINVAL;
    }
    if (settings->runtime != RUNTIME_NONE && !settings->trainer_user) {
        reason_set(reason, "--runtime: name the user whom containers run as, by --trainer-user");
        return TFE_EINVAL;
    }
    return 0;
}

void pool_name(const struct agent_settings *settings, uint32_t slot, struct tfe_id *ret)
{
    node_label(settings->agent.node_name, ret);
    if (slot > 0) {
        char suffix[12];
        const int n = snprintf(suffix, sizeof suffix, "-%" PRIu32, slot);
        const size_t end = strlen(ret->text);
        const size_t offset = end + (size_t)n > TFE_ID_MAX ? TFE_ID_MAX - (size_t)n : end;
        memcpy(ret->text + offset, suffix, (size_t)n + 1);
    }
}
