/* agent/core/ready.c: implementation of ready.h. */
#include "agent/core/ready.h"

#include <string.h>

void ready_connected(struct ready *r, const char *host)
{
    r->asked = false;
    if (host && strnlen(host, sizeof(r->host)) < sizeof(r->host)) {
        memcpy(r->host, host, strlen(host) + 1);
    }
}

const char *ready_host(const struct ready *r)
{
    return r->host[0] ? r->host : NULL;
}

/* Starts or stops answering probes on the reserved ports; does nothing if unchanged. */
static void answer(struct ready *r, struct turn *t, bool on)
{
    if (r->answers == on) {
        return;
    }
    r->answers = on;
    struct agent_action *order = turn_order(t, AGENT_ANSWER);
    order->answer.on = on;
    order->answer.epoch = r->epoch;
    order->answer.ports = r->ports;
    order->answer.n_ports = t->config.spec.nproc;
}

void ready_prepare(struct ready *r, struct turn *t, const struct msg_prepare *prepare)
{
    if (r->epoch != prepare->epoch) {
        r->epoch = prepare->epoch;
        r->fresh_ports = prepare->fresh_ports;
        r->held = 0;
        answer(r, t, false);
    }
    r->answer = prepare->answer;
    ready_again(r, t);
}

int ready_ports_held(struct ready *r, struct turn *t, const struct agent_event *event)
{
    if (event->ports.n != t->config.spec.nproc) {
        return TFE_EINVAL;
    }
    if (event->ports.epoch == r->epoch && r->held != r->epoch) {
        memcpy(r->ports, event->ports.v, event->ports.n * sizeof(r->ports[0]));
        r->held = r->epoch;
        t->wants_ready = true;
    }
    return 0;
}

void ready_again(struct ready *r, struct turn *t)
{
    r->asked = true;
    t->wants_ready = true;
}

void ready_say(struct ready *r, struct turn *t, uint64_t table_digest,
               const struct msg_memory *memory)
{
    if (r->held != r->epoch) {
        struct agent_action *order = turn_order(t, AGENT_HOLD_PORTS);
        order->hold.epoch = r->epoch;
        order->hold.fresh = r->fresh_ports;
        return;
    }
    answer(r, t, r->answer);
    turn_send(t, MSG_READY)->u.ready = (struct msg_ready){
        .epoch = r->epoch,
        .host = r->host,
        .ports = r->ports,
        .n_ports = t->config.spec.nproc,
        .answering = r->answers,
        .table_digest = table_digest,
        .tensorflow = turn_tensorflow(t),
        .memory = *memory,
    };
    turn_trace(t, AGENT_TRACE_READY, r->epoch, 0, NULL);
}

bool ready_is_asked(const struct ready *r)
{
    return r->epoch != 0 && r->asked;
}

bool ready_for(const struct ready *r, uint64_t epoch)
{
    return r->held == epoch && !r->answers;
}

const uint16_t *ready_ports(const struct ready *r)
{
    return r->ports;
}

bool ready_offers(const struct ready *r, const struct msg_row *rows, size_t n_rows)
{
    for (size_t i = 0; i < n_rows; i++) {
        if (rows[i].port != r->ports[i] || strcmp(rows[i].host, r->host) != 0) {
            return false;
        }
    }
    return true;
}

void ready_started(struct ready *r)
{
    r->epoch = 0;
    r->held = 0;
}

void ready_drop(struct ready *r, struct turn *t, uint64_t highest)
{
    if (r->epoch != 0 && r->epoch <= highest) {
        r->epoch = 0;
        answer(r, t, false);
    }
}
