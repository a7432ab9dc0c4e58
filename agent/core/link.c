/* agent/core/link.c: connects, joins, renews the lease and reconnects. */
#include "agent/core/link.h"

#include <string.h>

#include "common/text/text.h"

/* The token is invalid if the server closes this many consecutive connections without a byte, at
 * least UNAUTHORISED_GAP_MS apart (design 9). */
#define UNAUTHORISED_TRIES 3
#define UNAUTHORISED_GAP_MS 1000
/* Interval of the log entry "connecting" while the server is unreachable (design 9). */
#define LOG_INTERVAL_MS 10000
#define BACKOFF_FIRST_MS 100
/* After a connection is lost, the first retry comes between this time and the server's spread
 * (design 6). */
#define FIRST_TRY_MS 100
/* Longest backoff before the first WELCOME, when no TTL is known; equals the default TTL / 3. */
#define BACKOFF_MAX_MS 3000
/* A JOIN without a response for this long means that the server hangs or the connection is dead. */
#define JOIN_WAIT_MS 10000

/* Starts the timers of a period without a server. */
static void start_waiting(struct link *l, const struct step_context *t)
{
    l->unreachable_since = t->now;
    l->log_at = step_deadline_in(t, LOG_INTERVAL_MS);
}

static void set_state(struct link *l, struct step_context *t, enum link_state state)
{
    l->state = state;
    t->is_up = state == LINK_UP;
}

static void connect_now(struct link *l, struct step_context *t)
{
    set_state(l, t, LINK_CONNECTING);
    l->retry_at = TFE_MONO_NEVER;
    step_add_action(t, AGENT_CONNECT);
}

void link_begin(struct link *l, struct step_context *t)
{
    start_waiting(l, t);
    l->backoff_ms = BACKOFF_FIRST_MS;
    connect_now(l, t);
}

void link_connected(struct link *l)
{
    l->token_worked = true;
    l->renewals = 0;
}

void link_join(struct link *l, struct step_context *t)
{
    if (t->is_up) {
        /* the node was connected until now, so the waiting period starts here */
        start_waiting(l, t);
    }
    set_state(l, t, LINK_JOINING);
    l->join_sent = t->now;
    l->response_due = step_deadline_in(t, JOIN_WAIT_MS);
}

bool link_was_up(const struct link *l)
{
    return l->ever_up;
}

static uint32_t backoff_cap(const struct link *l)
{
    uint32_t cap = l->ttl_ms ? l->ttl_ms / 3 : BACKOFF_MAX_MS;
    return cap ? cap : 1;
}

void link_disconnected(struct link *l, struct step_context *t, enum agent_link how,
                       const char *reason)
{
    bool was_up = t->is_up;
    set_state(l, t, LINK_DOWN);
    if (!l->is_refused) {
        text_setf(l->reason, sizeof(l->reason), "%s", reason ? reason : "");
    }
    l->was_refused = l->is_refused;
    l->is_refused = false;
    uint64_t wait;
    if (was_up) {
        if (t->leave != LEAVE_AT_ONCE) { /* after FINISH the server closes the connection */
            step_trace(t, AGENT_TRACE_LINK_LOST, 0, 0, l->reason);
        }
        start_waiting(l, t);
        l->backoff_ms = BACKOFF_FIRST_MS;
        wait = l->spread_ms > FIRST_TRY_MS ? rng_between(&t->rng, FIRST_TRY_MS, l->spread_ms)
                                           : l->spread_ms;
    } else {
        /* Exponential backoff with full jitter. */
        wait = rng_between(&t->rng, 1, l->backoff_ms);
        l->backoff_ms = l->backoff_ms * 2 < backoff_cap(l) ? l->backoff_ms * 2 : backoff_cap(l);
    }
    if (how == AGENT_LINK_UNAUTHORISED && !l->token_worked) {
        if (++l->n_unauthorised >= UNAUTHORISED_TRIES) {
            step_leave(t, LEAVE_AT_ONCE, AGENT_EXIT_UNAUTHORISED,
                       "the server does not accept this token, or has another version (get a new "
                       "token from its operator: tfe-rdzv prints its path at startup)");
            return;
        }
        wait = UNAUTHORISED_GAP_MS;
    }
    l->retry_at = step_deadline_in(t, (int64_t)wait);
}

void link_refused(struct link *l, struct step_context *t, const struct msg_refused *refused)
{
    bool is_known = l->was_refused && strcmp(l->reason, refused->sentence) == 0;
    text_setf(l->reason, sizeof(l->reason), "%s", refused->sentence);
    l->is_refused = true;
    if (!is_known) {
        step_trace(t, AGENT_TRACE_REFUSED, 0, (uint64_t)refused->code, l->reason);
    }
}

void link_hold(struct link *l)
{
    l->retry_at = TFE_MONO_NEVER;
}

void link_retry_soon(struct link *l, struct step_context *t)
{
    l->backoff_ms = BACKOFF_FIRST_MS;
    if (l->state == LINK_DOWN) {
        uint64_t wait = rng_between(&t->rng, 1, BACKOFF_FIRST_MS);
        l->retry_at = tfe_mono_min(l->retry_at, step_deadline_in(t, (int64_t)wait));
    }
}

static void renew_later(struct link *l, struct step_context *t)
{
    uint64_t every = l->renew_ms;
    if (t->config.monitor_interval_ms && t->config.monitor_interval_ms < every) {
        every = t->config.monitor_interval_ms;
    }
    /* Jitter of 20 % around the server's interval; --monitor-interval is an upper bound. */
    uint64_t low = every * 8 / 10;
    uint64_t high = every == l->renew_ms ? every * 12 / 10 : every;
    uint64_t wait = rng_between(&t->rng, low ? low : 1, high > low ? high : low + 1);
    l->renew_at = step_deadline_in(t, (int64_t)wait);
}

static void set_fence(struct step_context *t, struct tfe_mono deadline)
{
    step_add_action(t, AGENT_FENCE)->fence = deadline;
}

/* Extends the lease from the time when the answered request was sent. */
static void extend_lease(struct link *l, struct tfe_mono sent, uint32_t ttl_ms)
{
    l->ttl_ms = ttl_ms;
    l->granted = sent;
    l->lease_end = tfe_mono_add(sent, ttl_ms);
    l->response_due = l->lease_end;
}

bool link_welcome(struct link *l, struct step_context *t, const struct msg_welcome *welcome)
{
    if (l->state != LINK_JOINING) {
        return false;
    }
    set_state(l, t, LINK_UP);
    l->ever_up = true;
    l->renew_ms = welcome->renew_ms;
    l->spread_ms = welcome->spread_ms;
    extend_lease(l, l->join_sent, welcome->ttl_ms);
    set_fence(t, tfe_mono_add(l->join_sent, welcome->fence_ms));
    renew_later(l, t);
    step_trace(t, AGENT_TRACE_JOINED, 0, welcome->ttl_ms, NULL);
    return true;
}

void link_renewed(struct link *l, struct step_context *t, const struct msg_renewed *renewed)
{
    if (renewed->spread_ms != 0) {
        l->spread_ms = renewed->spread_ms; /* the server sends the spread once, with any RENEWED */
    }
    if (renewed->number == 0 || renewed->number > l->renewals ||
        l->renewals - renewed->number >= RENEWALS_MAX) {
        return; /* the send time is no longer known, or the number was never sent */
    }
    if (renewed->ttl_ms != l->ttl_ms) {
        /* The server extends the TTL when it has many leases, and shortens it later. */
        l->renew_ms = renewed->ttl_ms >= 3 ? renewed->ttl_ms / 3 : 1;
        l->renew_at = tfe_mono_min(l->renew_at, step_deadline_in(t, l->renew_ms));
    }
    extend_lease(l, l->renew_sent[renewed->number % RENEWALS_MAX], renewed->ttl_ms);
    set_fence(t, tfe_mono_add(l->granted, renewed->fence_ms));
}

void link_fence(const struct link *l, struct step_context *t, uint32_t fence_ms)
{
    if (fence_ms != 0) {
        set_fence(t, tfe_mono_add(l->granted, fence_ms));
    }
}

void link_lease_ended(struct link *l, const struct step_context *t)
{
    l->lease_end = t->now;
}

static void renew(struct link *l, struct step_context *t, const struct msg_renew *fields)
{
    struct msg_renew *renew = &step_send(t, MSG_RENEW)->u.renew;
    l->renewals++;
    l->renew_sent[l->renewals % RENEWALS_MAX] = t->now;
    *renew = *fields;
    renew->number = l->renewals;
    renew_later(l, t);
}

static void on_unreachable(struct link *l, struct step_context *t)
{
    int64_t waited = tfe_mono_sub(t->now, l->unreachable_since);
    if (waited >= t->config.join_timeout_ms && t->is_idle) {
        char sentence[sizeof(l->reason) + 64];
        text_setf(sentence, sizeof(sentence), "the server %s within --join-timeout%s%s",
                  l->was_refused ? "did not admit this node" : "was not reached",
                  l->reason[0] ? ": " : "", l->reason);
        step_leave(t, LEAVE_AT_ONCE, AGENT_EXIT_UNREACHED, sentence);
        return;
    }
    if (step_is_past(t, l->log_at)) {
        l->log_at = step_deadline_in(t, LOG_INTERVAL_MS);
        step_trace(t, AGENT_TRACE_CONNECTING, 0, (uint64_t)waited, l->reason);
    }
}

void link_tick(struct link *l, struct step_context *t, const struct msg_renew *fields)
{
    if (link_is_joined(l) && step_is_past(t, l->response_due)) {
        l->response_due = TFE_MONO_NEVER;
        step_add_action(t, AGENT_HANG_UP);
        return;
    }
    if (t->is_up) {
        if (step_is_past(t, l->renew_at)) {
            renew(l, t, fields);
        }
        return;
    }
    on_unreachable(l, t);
    if (l->state == LINK_DOWN && t->leave == LEAVE_NOT && step_is_past(t, l->retry_at)) {
        connect_now(l, t);
    }
}

struct tfe_mono link_deadline(const struct link *l, const struct step_context *t)
{
    if (t->is_up) {
        return tfe_mono_min(l->renew_at, l->response_due);
    }
    struct tfe_mono when = l->log_at;
    if (t->is_idle) {
        when = tfe_mono_min(when, tfe_mono_add(l->unreachable_since, t->config.join_timeout_ms));
    }
    if (l->state == LINK_JOINING) {
        when = tfe_mono_min(when, l->response_due);
    }
    /* An agent that is leaving does not reconnect, so retry_at, which lies in the past, must not
     * count. */
    bool retries = l->state == LINK_DOWN && t->leave == LEAVE_NOT;
    return retries ? tfe_mono_min(when, l->retry_at) : when;
}

bool link_is_joined(const struct link *l)
{
    return l->state == LINK_UP || l->state == LINK_JOINING;
}

bool link_has_lease(const struct link *l, const struct step_context *t)
{
    return tfe_mono_before(t->now, l->lease_end);
}
