/* agent/core/preparation.c: implementation of preparation.h. */
#include "agent/core/preparation.h"

#include <string.h>

void preparation_connected(struct preparation *p, const char *host)
{
    p->is_requested = false;
    if (host && strnlen(host, sizeof(p->host)) < sizeof(p->host)) {
        memcpy(p->host, host, strlen(host) + 1);
    }
}

const char *preparation_host(const struct preparation *p)
{
    return p->host[0] ? p->host : NULL;
}

/* Starts or stops answering probes on the reserved ports; does nothing if unchanged. */
static void set_responding(struct preparation *p, struct step_context *t, bool on)
{
    if (p->is_responding == on) {
        return;
    }
    p->is_responding = on;
    struct agent_action *order = step_add_action(t, AGENT_RESPOND);
    order->respond.on = on;
    order->respond.epoch = p->epoch;
    order->respond.ports = p->ports;
    order->respond.n_ports = t->config.spec.nproc;
}

void preparation_begin(struct preparation *p, struct step_context *t,
                       const struct msg_prepare *prepare)
{
    if (p->epoch != prepare->epoch) {
        p->epoch = prepare->epoch;
        p->fresh_ports = prepare->fresh_ports;
        p->held_epoch = 0;
        set_responding(p, t, false);
    }
    p->must_respond = prepare->answer;
    preparation_request_ready(p, t);
}

int preparation_ports_held(struct preparation *p, struct step_context *t,
                           const struct agent_event *event)
{
    if (event->ports.n != t->config.spec.nproc) {
        return TFE_EINVAL;
    }
    if (event->ports.epoch == p->epoch && p->held_epoch != p->epoch) {
        memcpy(p->ports, event->ports.v, event->ports.n * sizeof(p->ports[0]));
        p->held_epoch = p->epoch;
        t->must_send_ready = true;
    }
    return 0;
}

void preparation_request_ready(struct preparation *p, struct step_context *t)
{
    p->is_requested = true;
    t->must_send_ready = true;
}

void preparation_send_ready(struct preparation *p, struct step_context *t, uint64_t table_digest,
                            const struct msg_memory *memory)
{
    if (p->held_epoch != p->epoch) {
        struct agent_action *order = step_add_action(t, AGENT_HOLD_PORTS);
        order->hold.epoch = p->epoch;
        order->hold.fresh = p->fresh_ports;
        return;
    }
    set_responding(p, t, p->must_respond);
    step_send(t, MSG_READY)->u.ready = (struct msg_ready){
        .epoch = p->epoch,
        .host = p->host,
        .ports = p->ports,
        .n_ports = t->config.spec.nproc,
        .answering = p->is_responding,
        .table_digest = table_digest,
        .tensorflow = step_tensorflow(t),
        .memory = *memory,
    };
    step_trace(t, AGENT_TRACE_READY, p->epoch, 0, NULL);
}

bool preparation_is_requested(const struct preparation *p)
{
    return p->epoch != 0 && p->is_requested;
}

bool preparation_is_ready_for(const struct preparation *p, uint64_t epoch)
{
    return p->held_epoch == epoch && !p->is_responding;
}

const uint16_t *preparation_ports(const struct preparation *p)
{
    return p->ports;
}

bool preparation_matches(const struct preparation *p, const struct msg_row *rows, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++) {
        if (rows[i].port != p->ports[i] || strcmp(rows[i].host, p->host) != 0) {
            return false;
        }
    }
    return true;
}

void preparation_started(struct preparation *p)
{
    p->epoch = 0;
    p->held_epoch = 0;
}

void preparation_cancel(struct preparation *p, struct step_context *t, uint64_t highest)
{
    if (p->epoch != 0 && p->epoch <= highest) {
        p->epoch = 0;
        set_responding(p, t, false);
    }
}
