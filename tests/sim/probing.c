/* tests/sim/probing.c: probes of one machine's ports by another: answered, accepted, refused or
 * unreachable.
 *
 * A port belongs to a trainer from the start of listening until it is reaped (a frozen or stuck
 * trainer's kernel still accepts connections), to the agent while it answers there, and else to no
 * process. */
#include "tests/sim/probing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/net.h"
#include "tests/sim/node_agent.h"

/* Time limit of a probe, as in agent/os/prober.h. */
#define PROBE_LIMIT_MS 1000

/* A probe under way. The entries are reused. */
struct attempt {
    bool used;
    uint32_t tag;
    uint32_t prober;
    uint32_t process; /* process number of the prober */
    uint32_t target;  /* machine at the address; NAMES_NONE if there is none */
    uint64_t probe;
    enum tfe_probe_kind kind;
    enum tfe_probe_result result;
    char id[TFE_ID_MAX + 1];
    uint16_t ports[MSG_NPROC_MAX];
    size_t n_ports;
    uint16_t guard_port;
    char death[NODE_DEATH_CHARS + 1]; /* proof of termination that was received */
};

struct probing {
    struct attempt *v;
    size_t n, cap;
    uint32_t *free;
    size_t n_free, cap_free;
};

void probing_host(uint32_t node, char host[PROBING_HOST_MAX])
{
    snprintf(host, PROBING_HOST_MAX, "10.%u.%u.%u", node >> 16 & 255, node >> 8 & 255, node & 255);
}

uint32_t probing_machine(const struct world *w, const char *host)
{
    unsigned a, b, c;
    if (sscanf(host, "10.%u.%u.%u", &a, &b, &c) != 3) {
        return NAMES_NONE;
    }
    uint32_t node = a << 16 | b << 8 | c;
    return node < w->n_nodes ? node : NAMES_NONE;
}

void probing_free(struct world *w)
{
    if (w->probing) {
        free(w->probing->v);
        free(w->probing->free);
        free(w->probing);
        w->probing = NULL;
    }
}

static uint32_t take_slot(struct world *w)
{
    if (!w->probing) {
        w->probing = sim_alloc(1, sizeof(*w->probing));
    }
    struct probing *p = w->probing;
    if (p->n_free > 0) {
        return p->free[--p->n_free];
    }
    p->v = sim_grow(p->v, p->n, &p->cap, sizeof(*p->v));
    p->v[p->n] = (struct attempt){0};
    return (uint32_t)p->n++;
}

static void give_slot(struct probing *p, uint32_t slot)
{
    p->v[slot].used = false;
    p->v[slot].tag++;
    p->free = sim_grow(p->free, p->n_free, &p->cap_free, sizeof(*p->free));
    p->free[p->n_free++] = slot;
}

/* --- at the target --- */

static enum tfe_probe_result try_port(const struct node *target, uint16_t port,
                                      const struct attempt *a)
{
    for (uint32_t local = 0; local < target->cap_trainers; local++) {
        const struct trainer *t = &target->trainers[local];
        if (t->port == port && t->listens && t->state != TRAINER_NONE) {
            return PROBE_ACCEPTED;
        }
    }
    for (size_t i = 0; target->agent && i < target->n_answers; i++) {
        if (target->answers[i] != port) {
            continue;
        }
        if (target->frozen || a->kind == PROBE_SUSPECT) {
            /* accepted by the kernel; no id was sent, or none was waited for */
            return PROBE_ACCEPTED;
        }
        return strcmp(target->id, a->id) == 0 ? PROBE_ANSWERED_OURS : PROBE_ANSWERED_OTHER;
    }
    return PROBE_REFUSED;
}

static bool is_parted(const struct node *one, const struct node *other)
{
    return one->peers_cut || one->parted_from == other->index;
}

/* Returns the machine at the probed address, or NULL if none is reached there. */
static const struct node *reached(const struct world *w, const struct attempt *a)
{
    if (a->target == NAMES_NONE) {
        return NULL;
    }
    const struct node *target = &w->nodes[a->target];
    const struct node *prober = &w->nodes[a->prober];
    target = target->on || target->taken_by == NAMES_NONE ? target : &w->nodes[target->taken_by];
    bool is_near = target == prober || (!is_parted(target, prober) && !is_parted(prober, target));
    return target->on && !target->suspended && prober->on && is_near ? target : NULL;
}

/* As in agent/os/prober.c: the agent's own answer only if every port gave it, else the first in the
 * list. */
static enum tfe_probe_result try_all(const struct node *target, const struct attempt *a)
{
    enum tfe_probe_result worst = PROBE_REFUSED;
    bool all_ours = true;
    for (size_t i = 0; i < a->n_ports; i++) {
        enum tfe_probe_result one = try_port(target, a->ports[i], a);
        all_ours = all_ours && one == PROBE_ANSWERED_OURS;
        worst = one != PROBE_ANSWERED_OURS && one < worst ? one : worst;
    }
    return all_ours ? PROBE_ANSWERED_OURS : worst;
}

static int64_t way_there(struct world *w, const struct attempt *a)
{
    const struct link *link = net_link(w, a->target == NAMES_NONE ? a->prober : a->target);
    return 1 + (link->latency_lo < link->latency_hi
                    ? (int64_t)rng_between(&w->rng, link->latency_lo, link->latency_hi)
                    : link->latency_lo);
}

static void on_result(struct world *w, const struct sim_event *event)
{
    struct attempt *a = &w->probing->v[event->who];
    if (!a->used || a->tag != event->tag) {
        return;
    }
    struct node *prober = &w->nodes[a->prober];
    if (prober->agent && prober->process == a->process && !node_can_run(w, a->prober)) {
        node_wait(prober, event);
        return;
    }
    struct agent_event e = {.type = AGENT_PROBED, .probed = {a->probe, a->result}};
    char death[NODE_DEATH_CHARS + 1];
    memcpy(death, a->death, sizeof(death));
    bool is_there = prober->agent && prober->process == a->process;
    give_slot(w->probing, event->who);
    if (is_there) {
        node_agent_event(w, prober, &e);
    }
    if (is_there && death[0]) {
        node_agent_event(w, prober,
                         &(struct agent_event){.type = AGENT_PROOF, .certificate = death});
    }
}

static void on_arrival(struct world *w, const struct sim_event *event)
{
    struct attempt *a = &w->probing->v[event->who];
    int64_t back;
    const struct node *target = reached(w, a);
    if (target) {
        a->result = try_all(target, a);
        if (a->guard_port == NODE_GUARD_PORT && target->left[0] &&
            tfe_mono_before(node_clock(w, target->index), target->left_fence)) {
            memcpy(a->death, target->left, sizeof(a->death));
        }
        back = way_there(w, a);
        /* A connection on which nothing is sent is waited for. */
        back = a->kind == PROBE_ADDRESS && a->result == PROBE_ACCEPTED ? PROBE_LIMIT_MS : back;
    } else {
        a->result = PROBE_NO_ANSWER;
        back = PROBE_LIMIT_MS;
    }
    world_at(w, w->now + back, on_result, event->who, a->tag, 0);
}

void probing_try(struct world *w, struct node *prober, const struct msg_probe *probe)
{
    uint32_t slot = take_slot(w);
    struct attempt *a = &w->probing->v[slot];
    *a = (struct attempt){.used = true,
                          .tag = a->tag,
                          .prober = prober->index,
                          .process = prober->process,
                          .target = probing_machine(w, probe->host),
                          .probe = probe->probe,
                          .kind = probe->kind,
                          .n_ports = probe->n_ports,
                          .guard_port = probe->guard_port};
    snprintf(a->id, sizeof(a->id), "%s", probe->node);
    memcpy(a->ports, probe->ports, probe->n_ports * sizeof(*probe->ports));
    world_at(w, w->now + way_there(w, a), on_arrival, slot, a->tag, 0);
}
