/* agent/core/link.c: the connection to the server: connecting, joining, renewing, and again. */
#include <string.h>

#include "agent/core/core.h"
#include "common/base/text.h"

/* DESIGN 9: closed without a byte so many times, at least a second apart: the token is wrong. */
#define UNAUTHORISED_TRIES 3
#define UNAUTHORISED_GAP_MS 1000
/* DESIGN 9: while the server is not there, say so this often. */
#define SAY_EVERY_MS 10000
#define BACKOFF_FIRST_MS 100
/* DESIGN 6: the first try after a lost connection comes between this and the server's spread. */
#define FIRST_TRY_MS 100
/* Before the first WELCOME no ttl is known; what ttl/3 is by default. */
#define BACKOFF_MAX_MS 3000
/* A JOIN that is not answered for so long: the server hangs, or the connection leads nowhere. */
#define JOIN_WAIT_MS 10000

void link_begin(struct agent *a)
{
    a->link.since = a->now;
    a->link.say_next = tfe_mono_add(a->now, SAY_EVERY_MS);
    a->link.retry_at = TFE_MONO_NEVER;
    a->link.backoff_ms = BACKOFF_FIRST_MS;
    a->link.state = LINK_CONNECTING;
    act_push(a, AGENT_CONNECT);
}

void link_join(struct agent *a)
{
    if (a->link.state == LINK_UP) {
        /* Once more on this connection: the time before it was not spent waiting for the server. */
        a->link.since = a->now;
        a->link.say_next = tfe_mono_add(a->now, SAY_EVERY_MS);
    }
    bool has_ended = a->work == WORK_IDLE && a->epoch != 0 && a->exited.epoch == a->epoch;
    a->link.exited_told = has_ended;
    struct msg_join *join = &act_send(a, MSG_JOIN)->u.join;
    const struct agent_config *c = &a->config;
    *join = (struct msg_join){
        .job = c->job.text,
        .node = c->node.text,
        .node_name = c->node_name,
        .min_nodes = c->min_nodes,
        .max_nodes = c->max_nodes,
        .nproc = c->nproc,
        .max_restarts = c->max_restarts,
        .gather_ms = c->gather_ms,
        .grow_wait_ms = c->grow_wait_ms,
        .elastic_timeout_ms = c->elastic_timeout_ms,
        .new_run = c->new_run && !a->link.ever_up,
        .stop_grace_ms = c->stop_grace_ms,
        .highest_epoch = a->highest,
        .running_epoch = a->work == WORK_IDLE || TFE_BUG(join_says_idle) ? 0 : a->epoch,
        .script_digest = c->script_digest,
        .pid = c->pid,
        .exited = has_ended ? &a->exited : NULL,
        .durable = c->durable,
        .run_key = c->run_key,
        .no_grow = c->no_grow,
        .chief_grace_ms = c->chief_grace_ms,
        .running = a->work != WORK_IDLE || has_ended ? &a->running : NULL,
    };
    a->link.state = LINK_JOINING;
    a->link.join_sent = a->now;
    a->link.silent_at = tfe_mono_add(a->now, JOIN_WAIT_MS);
    memset(a->told_pids, 0xff, sizeof(a->told_pids)); /* a new session knows none of them */
}

void link_connected(struct agent *a, const char *host)
{
    a->link.token_worked = true;
    a->link.unauthorised = 0;
    a->link.renewals = 0;
    a->asked = false;
    if (host && strnlen(host, sizeof(a->host)) < sizeof(a->host)) {
        memcpy(a->host, host, strlen(host) + 1);
    }
    link_join(a);
}

static uint32_t backoff_cap(const struct agent *a)
{
    uint32_t cap = a->link.ttl_ms ? a->link.ttl_ms / 3 : BACKOFF_MAX_MS;
    return cap ? cap : 1;
}

void link_disconnected(struct agent *a, enum agent_link how, const char *text)
{
    struct link *link = &a->link;
    bool was_up = link->state == LINK_UP;
    link->state = LINK_DOWN;
    if (a->leaving) {
        act_exit(a);
        return;
    }
    size_t n = text ? strnlen(text, sizeof(link->why) - 1) : 0;
    memcpy(link->why, text ? text : "", n);
    link->why[n] = '\0';
    uint64_t wait;
    if (was_up) {
        act_trace(a, AGENT_TRACE_LINK_LOST, 0, link->why);
        link->since = a->now;
        link->say_next = tfe_mono_add(a->now, SAY_EVERY_MS);
        link->backoff_ms = BACKOFF_FIRST_MS;
        wait = link->spread_ms > FIRST_TRY_MS ? rng_between(&a->rng, FIRST_TRY_MS, link->spread_ms)
                                              : link->spread_ms;
    } else {
        /* Full jitter, doubling. */
        wait = rng_between(&a->rng, 1, link->backoff_ms);
        link->backoff_ms =
            link->backoff_ms * 2 < backoff_cap(a) ? link->backoff_ms * 2 : backoff_cap(a);
    }
    if (how == AGENT_LINK_UNAUTHORISED && !link->token_worked) {
        if (++link->unauthorised >= UNAUTHORISED_TRIES) {
            leave_with(a, AFTER_EXIT, AGENT_EXIT_UNAUTHORISED,
                       "the server does not accept this token: ask its operator for a fresh one "
                       "(tfe-rdzv prints where it is kept)");
            return;
        }
        wait = UNAUTHORISED_GAP_MS;
    }
    link->retry_at =
        TFE_BUG(reconnect_never) ? TFE_MONO_NEVER : tfe_mono_add(a->now, (int64_t)wait);
}

void link_hurry(struct agent *a)
{
    struct link *link = &a->link;
    link->backoff_ms = BACKOFF_FIRST_MS;
    if (link->state == LINK_DOWN) {
        uint64_t wait = rng_between(&a->rng, 1, BACKOFF_FIRST_MS);
        link->retry_at = tfe_mono_min(link->retry_at, tfe_mono_add(a->now, (int64_t)wait));
    }
}

static void renew_later(struct agent *a)
{
    struct link *link = &a->link;
    uint64_t every = link->renew_ms;
    if (a->config.monitor_interval_ms && a->config.monitor_interval_ms < every) {
        every = a->config.monitor_interval_ms;
    }
    /* 20 % of jitter downwards and upwards; --monitor-interval is a longest time. */
    uint64_t low = every * 8 / 10;
    uint64_t high = every == link->renew_ms ? every * 12 / 10 : every;
    uint64_t wait = rng_between(&a->rng, low ? low : 1, high > low ? high : low + 1);
    link->renew_at = tfe_mono_add(a->now, (int64_t)wait);
}

static void set_fence(struct agent *a, struct tfe_mono deadline)
{
    if (!TFE_BUG(fence_unset)) {
        act_push(a, AGENT_FENCE)->deadline = deadline;
    }
}

void link_welcome(struct agent *a, const struct msg_welcome *welcome)
{
    struct link *link = &a->link;
    link->state = LINK_UP;
    link->ever_up = true;
    link->backoff_ms = BACKOFF_FIRST_MS;
    link->ttl_ms = welcome->ttl_ms;
    link->renew_ms = welcome->renew_ms;
    link->spread_ms = welcome->spread_ms;
    link->stop_grace_ms = welcome->stop_grace_ms;
    link->granted = link->join_sent;
    link->lease_end = tfe_mono_add(link->join_sent, welcome->ttl_ms);
    set_fence(a, tfe_mono_add(link->join_sent, welcome->fence_ms));
    link->silent_at = link->lease_end;
    renew_later(a);
    act_trace(a, AGENT_TRACE_JOINED, welcome->ttl_ms, NULL);
    link_tell_processes(a);
}

void link_renewed(struct agent *a, const struct msg_renewed *renewed)
{
    struct link *link = &a->link;
    if (renewed->spread_ms != 0) {
        link->spread_ms = renewed->spread_ms; /* said once, whichever RENEW it answers */
    }
    if (renewed->number == 0 || renewed->number > link->renewals ||
        link->renewals - renewed->number >= RENEWALS_MAX) {
        return; /* too old to know when it was sent, or never sent */
    }
    struct tfe_mono sent = link->renew_sent[renewed->number % RENEWALS_MAX];
    if (renewed->ttl_ms != link->ttl_ms) {
        /* The server lengthens leases when it has many, and shortens them again. */
        link->renew_ms = renewed->ttl_ms >= 3 ? renewed->ttl_ms / 3 : 1;
        link->renew_at = tfe_mono_min(link->renew_at, tfe_mono_add(a->now, link->renew_ms));
    }
    link->ttl_ms = renewed->ttl_ms;
    link->granted = sent;
    link->lease_end = tfe_mono_add(sent, renewed->ttl_ms);
    link->silent_at = link->lease_end;
    set_fence(a, tfe_mono_add(TFE_BUG(fence_from_answer) ? a->now : sent, renewed->fence_ms));
}

void link_fence(struct agent *a, uint32_t fence_ms)
{
    if (fence_ms != 0) {
        set_fence(a, tfe_mono_add(a->link.granted, fence_ms));
    }
}

void link_lease_ended(struct agent *a)
{
    a->link.lease_end = a->now;
    work_stop(a, "the lease has ended");
}

static void renew(struct agent *a)
{
    struct link *link = &a->link;
    link->renewals++;
    link->renew_sent[link->renewals % RENEWALS_MAX] = a->now;
    act_send(a, MSG_RENEW)->u.renew.number = link->renewals;
    renew_later(a);
}

static void still_not_there(struct agent *a)
{
    struct link *link = &a->link;
    int64_t waited = tfe_mono_sub(a->now, link->since);
    if (waited >= a->config.join_timeout_ms && a->work == WORK_IDLE) {
        char sentence[sizeof(link->why) + 64];
        struct text text;
        text_init(&text, sentence, sizeof(sentence));
        text_add(&text, "the server was not reached within --join-timeout");
        text_add(&text, link->why[0] ? ": " : NULL);
        text_add(&text, link->why);
        leave_with(a, AFTER_EXIT, AGENT_EXIT_UNREACHED, sentence);
        return;
    }
    if (!tfe_mono_before(a->now, link->say_next)) {
        link->say_next = tfe_mono_add(a->now, SAY_EVERY_MS);
        act_trace(a, AGENT_TRACE_CONNECTING, (uint64_t)waited, link->why);
    }
}

void link_tick(struct agent *a)
{
    struct link *link = &a->link;
    if (a->leaving) {
        if (!tfe_mono_before(a->now, a->leave_by)) {
            act_exit(a);
        }
        return;
    }
    bool asked = link->state == LINK_UP || link->state == LINK_JOINING;
    if (asked && !tfe_mono_before(a->now, link->silent_at)) {
        link->silent_at = TFE_MONO_NEVER;
        act_push(a, AGENT_HANG_UP);
        return;
    }
    if (link->state == LINK_UP) {
        if (!tfe_mono_before(a->now, link->renew_at)) {
            renew(a);
        }
        return;
    }
    still_not_there(a);
    if (link->state == LINK_DOWN && a->after == AFTER_NOTHING &&
        !tfe_mono_before(a->now, link->retry_at)) {
        link->state = LINK_CONNECTING;
        link->retry_at = TFE_MONO_NEVER;
        act_push(a, AGENT_CONNECT);
    }
}

struct tfe_mono link_deadline(const struct agent *a)
{
    const struct link *link = &a->link;
    if (a->leaving) {
        return a->leave_by;
    }
    if (link->state == LINK_UP) {
        return tfe_mono_min(link->renew_at, link->silent_at);
    }
    struct tfe_mono when = link->say_next;
    if (a->work == WORK_IDLE) {
        when = tfe_mono_min(when, tfe_mono_add(link->since, a->config.join_timeout_ms));
    }
    if (link->state == LINK_JOINING) {
        when = tfe_mono_min(when, link->silent_at);
    }
    /* On the way out there is no next try: its time would stay in the past. */
    bool retries = link->state == LINK_DOWN && a->after == AFTER_NOTHING;
    return retries ? tfe_mono_min(when, link->retry_at) : when;
}

/* Those that are there, in order, into live; returns how many. */
static size_t pids_take(const uint32_t *pids, uint32_t n, uint32_t *told, uint32_t *live)
{
    size_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        told[i] = pids[i];
        if (pids[i]) {
            live[found++] = pids[i];
        }
    }
    return found;
}

void link_tell_processes(struct agent *a)
{
    uint32_t n = a->config.nproc;
    if (a->link.state != LINK_UP ||
        (memcmp(a->pids, a->told_pids, n * sizeof(a->pids[0])) == 0 &&
         memcmp(a->standby_pids, a->told_standby_pids, n * sizeof(a->pids[0])) == 0)) {
        return;
    }
    struct msg_processes *p = &act_send(a, MSG_PROCESSES)->u.processes;
    p->guard_pid = a->guard_pid;
    p->trainer_pids = a->live_pids;
    p->n_trainer_pids = pids_take(a->pids, n, a->told_pids, a->live_pids);
    p->standby_pids = a->live_standby_pids;
    p->n_standby_pids = pids_take(a->standby_pids, n, a->told_standby_pids, a->live_standby_pids);
}
