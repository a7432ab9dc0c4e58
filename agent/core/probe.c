/* agent/core/probe.c: answering others' probes, and probing others. */
#include <string.h>

#include "agent/core/core.h"

void probe_answer(struct agent *a, bool answer)
{
    if (a->answers == answer) {
        return;
    }
    a->answers = answer;
    if (TFE_BUG(answers_on) && !answer) {
        return;
    }
    struct agent_action *action = act_push(a, AGENT_ANSWER);
    action->answer = answer;
    action->epoch = a->prepare;
    action->ports = a->ports;
    action->n_ports = a->config.nproc;
}

int probe_take(struct agent *a, const struct msg_probe *probe)
{
    if (!probe->node || !probe->host || probe->n_ports == 0 || probe->n_ports > MSG_NPROC_MAX ||
        strnlen(probe->host, sizeof(a->probe.host)) == sizeof(a->probe.host) ||
        id_set(&a->probe.node, probe->node)) {
        return TFE_EINVAL;
    }
    memcpy(a->probe.host, probe->host, strlen(probe->host) + 1);
    memcpy(a->probe.ports, probe->ports, probe->n_ports * sizeof(a->probe.ports[0]));
    struct tfe_msg *msg = &act_push(a, AGENT_PROBE)->msg;
    msg->type = MSG_PROBE;
    msg->u.probe = *probe;
    msg->u.probe.node = a->probe.node.text;
    msg->u.probe.host = a->probe.host;
    msg->u.probe.ports = a->probe.ports;
    return 0;
}

void probe_done(struct agent *a, uint64_t probe, enum tfe_probe_result result)
{
    if (a->link.state == LINK_UP) {
        struct msg_probed *probed = &act_send(a, MSG_PROBED)->u.probed;
        probed->probe = probe;
        probed->result = result;
    }
}
