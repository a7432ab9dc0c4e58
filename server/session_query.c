/* server/session_query.c: queries of observers and orders of admins. */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/channel/channel.h"
#include "common/cli/log.h"
#include "server/auth/audit.h"
#include "server/jobs/job_registry.h"
#include "server/query/operator.h"
#include "server/session.h"

/* --- deny list --- */

static void keep_ban(struct sessions *all, const struct msg_ban_row *row)
{
    const struct tfe_msg msg = {.type = MSG_BAN_ROW, .u.ban_row = *row};
    if (writer_put(all->writer, &msg, NULL, NULL, NULL) != 0) {
        log_warn("ban_not_stored", LOG_S("node", row->node));
    }
}

/* Adds a deny-list entry of an order of `by`. The core keeps out the evicted process; the entry
 * keeps out a new process with the same key, or the same token and label. of: principal of the
 * evicted node, or NULL if it had no session. */
static void ban(struct sessions *all, const struct operator_response *who,
                const struct principal *of, const struct principal *by, uint32_t for_ms)
{
    char key[MSG_KEY_HEX + 1] = "";
    if (of) {
        token_id_text(of->key_id, key);
    }
    const struct msg_ban_row row = {.node = who->node.text,
                                    .job = who->job.text,
                                    .key = key,
                                    .token = who->token,
                                    .name = who->name,
                                    .until.ms = clock_wall().ms + for_ms};
    if (deny_list_add(all->bans, &row, by) != 0) {
        log_warn("ban_not_stored", LOG_S("node", row.node));
        return;
    }
    keep_ban(all, &row);
}

/* Removes all entries of this node that s may remove. */
static void unban(struct session *s, const char *node, struct operator_response *ret)
{
    struct sessions *all = s->all;
    const struct msg_ban_row *row = deny_list_find_named(all->bans, s->by, node, clock_wall());
    *ret = (struct operator_response){.msg = {.type = MSG_DONE}};
    if (!row) {
        ret->msg = (struct tfe_msg){
            .type = MSG_REFUSED,
            .u.refused = {REFUSAL_NO_SUCH_NODE, "no denied node has this id or label"}};
    }
    for (; row; row = deny_list_find_named(all->bans, s->by, node, clock_wall())) {
        struct msg_ban_row over = *row;
        over.until.ms = 0;
        keep_ban(all, &over);
        (void)all->ops->order(
            all->ops_ctx, &(struct rdzv_event){
                              .type = RDZV_UNBAN, .by = s->by, .job = row->job, .node = row->node});
        deny_list_remove(all->bans, row);
    }
}

/* Copies the principal of the node that `name` means, before an order ends its session. Returns
 * false if it has no session. */
static bool principal_of_node(const struct session *s, const char *name, struct principal *ret)
{
    struct rdzv_found found;
    bool is_unclear;
    const struct pool_node *pooled = pool_find_target(s->all->pool, s->by, name, &is_unclear);
    const struct session *of_node = pooled ? pool_node_session(pooled) : NULL;
    if (!pooled && rdzv_find_node(s->all->rdzv, s->by, name, &found) == 0 &&
        found.v[0].session < s->all->max) {
        of_node = s->all->by_number[found.v[0].session];
    }
    if (!of_node || of_node->phase != SESSION_OPEN) {
        return false;
    }
    *ret = *of_node->by;
    return true;
}

/* Carries out an order about a pool node, and about the agent below it. Returns false if no pool
 * node matches. */
static bool execute_pool_order(struct session *s, const struct tfe_msg *order, const char *node,
                               struct operator_response *ret)
{
    const struct tfe_msg evict = {.type = MSG_EVICT, .u.evict = {.node = node}};
    bool is_unclear;
    struct pool_node *pooled = pool_find_target(s->all->pool, s->by, node, &is_unclear);
    if (is_unclear) {
        *ret = (struct operator_response){
            .msg = {.type = MSG_REFUSED,
                    .u.refused = {REFUSAL_BAD_REQUEST,
                                  "ambiguous node: several nodes match (use the "
                                  "full id from tfe-ctl pool or tfe-ctl nodes)"}}};
        return true;
    }
    if (!pooled) {
        return false;
    }
    *ret = (struct operator_response){.msg = {.type = MSG_DONE}};
    if (order->type != MSG_DRAIN) { /* the agent loses its place in the job as well */
        operator_execute(s->all->rdzv, s->all->ops->order, s->all->ops_ctx, s->by, &evict, ret);
    }
    pool_execute_order(s->all->pool, pooled, order, ret);
    return true;
}

/* Evicts a node whose own key is revoked. Refuses if the node has no key of its own. */
static void revoke_agent(struct session *s, const char *node, bool is_self, bool is_enrolled,
                         struct operator_response *ret)
{
    const struct tfe_msg evict = {.type = MSG_EVICT, .u.evict = {.node = node, .for_ms = 0}};
    struct rdzv_found found;
    bool is_unclear;
    if (!is_enrolled &&
        (pool_find_target(s->all->pool, s->by, node, &is_unclear) ||
         (rdzv_find_node(s->all->rdzv, s->by, node, &found) == 0 && found.n == 1))) {
        *ret = (struct operator_response){
            .msg = {
                .type = MSG_REFUSED,
                .u.refused = {
                    REFUSAL_NO_SUCH_KEY,
                    is_self
                        ? "this agent does not have its own key yet (revoke its token or evict it)"
                        : "this agent's key is unknown because the agent is not connected (evict "
                          "it, or revoke the key by its id from tfe-ctl audit)"}}};
        return;
    }
    if (!execute_pool_order(s, &evict, node, ret)) {
        operator_execute(s->all->rdzv, s->all->ops->order, s->all->ops_ctx, s->by, &evict, ret);
    }
}

/* --- queries and orders --- */

static int respond(struct session *s, struct rows *rows)
{
    rows->ended = s->order ? session_order_done : NULL;
    rows->ended_ctx = s;
    return response_begin(rows, &s->all->batch, s->channel, &s->response);
}

/* Revokes the key of a node that has been evicted. DONE is sent once the revocation is durable. */
static int revoke_key(struct session *s, const struct principal *of)
{
    struct rows *rows;
    char key[MSG_KEY_HEX + 1];
    token_id_text(of->key_id, key);
    int rc = rows_token_revoke(s->all->keys, s->all->writer, key, &rows);
    return rc != 0 ? rc : respond(s, rows);
}

/* Forgets a job in the core first, which may refuse, then in the pool; a submitted job may be
 * unknown to the core. */
static void forget(struct session *s, const struct tfe_msg *order, struct operator_response *ret)
{
    const char *job = order->u.forget.job;
    if (pool_holds(s->all->pool, job)) {
        *ret = (struct operator_response){
            .msg = {
                .type = MSG_REFUSED,
                .u.refused = {REFUSAL_CONFLICT,
                              "cannot forget the job: it was submitted and has not ended or still "
                              "has pool nodes (cancel it and try again after their release)"}}};
        return;
    }
    operator_execute(s->all->rdzv, s->all->ops->order, s->all->ops_ctx, s->by, order, ret);
    if ((ret->msg.type == MSG_DONE || ret->msg.u.refused.code == REFUSAL_NO_SUCH_JOB) &&
        pool_forget(s->all->pool, job) == 0) {
        ret->msg.type = MSG_DONE;
    }
}

/* Replaces "no such job" for a submitted job that no agent has joined yet: the core does not know
 * it. */
static void refuse_unjoined(const struct session *s, const struct tfe_msg *msg,
                            struct operator_response *done)
{
    struct registry_texts texts = {.pool = {.shows_arguments = false}};
    struct msg_status_job job;
    const bool is_unknown =
        done->msg.type == MSG_REFUSED && done->msg.u.refused.code == REFUSAL_NO_SUCH_JOB;
    if (is_unknown && registry_find(s->all, msg_job(msg), &texts, &job) == 0) {
        const bool is_over = msg_job_is_over(job.state);
        (void)snprintf(done->sentence, sizeof(done->sentence), "job \"%s\" %s %s%s", job.job,
                       is_over ? "has" : "is", is_over ? "ended" : msg_job_state_name(job.state),
                       is_over ? "" : ": no node has joined it yet");
        done->msg.u.refused.code = REFUSAL_CONFLICT;
    }
}

static int execute_order(struct session *s, const struct tfe_msg *msg)
{
    struct operator_response done;
    struct principal of;
    const char *name = msg->type == MSG_EVICT          ? msg->u.evict.node
                       : msg->type == MSG_REVOKE_AGENT ? msg->u.revoke_agent.node
                                                       : NULL;
    const char *node = msg->type == MSG_DRAIN ? msg->u.drain.node : name;
    bool has_key = name && principal_of_node(s, name, &of);
    bool is_enrolled = has_key && of.kind == PRINCIPAL_BY_NODE_KEY;
    if (msg->type == MSG_UNBAN) {
        unban(s, msg->u.unban.node, &done);
    } else if (msg->type == MSG_REVOKE_AGENT) {
        revoke_agent(s, name, has_key, is_enrolled, &done);
    } else if (msg->type == MSG_FORGET) {
        forget(s, msg, &done);
    } else if (!node || !execute_pool_order(s, msg, node, &done)) {
        operator_execute(s->all->rdzv, s->all->ops->order, s->all->ops_ctx, s->by, msg, &done);
    }
    refuse_unjoined(s, msg, &done);
    if (done.msg.type == MSG_REFUSED) {
        session_order_done(s, &done.msg);
        session_refuse(s, done.msg.u.refused.code, done.msg.u.refused.sentence);
        return 0;
    }
    if (msg->type == MSG_EVICT && msg->u.evict.for_ms > 0) {
        ban(s->all, &done, has_key ? &of : NULL, s->by, msg->u.evict.for_ms);
    }
    if (msg->type == MSG_REVOKE_AGENT) {
        return revoke_key(s, &of);
    }
    session_order_done(s, &done.msg);
    int rc = channel_send(s->channel, &done.msg);
    return channel_ends_itself(rc) ? 0 : rc;
}

/* Sets *ret to the source for a query; to NULL if msg is an order that is carried out at once. */
static int find_rows(const struct session *s, const struct tfe_msg *msg, struct rows **ret)
{
    const struct sessions *all = s->all;
    *ret = NULL;
    switch ((int)msg->type) {
    case MSG_STATUS:
        return rows_status(all, s->by, &msg->u.status, ret);
    case MSG_LOGS:
        return rows_logs(all->logs, s->by, &msg->u.logs, ret);
    case MSG_EPOCHS:
        return rows_ledger(all, msg->u.epochs.job, ret);
    case MSG_EVENTS:
        return rows_events(all->writer, all->events, s->by, &msg->u.events, ret);
    case MSG_SERIES:
        return rows_series(all->series, &msg->u.series, ret);
    case MSG_BACKUP:
        return rows_backup(all->writer, all->backup_dir, msg->u.backup.name, ret);
    case MSG_TOKEN_CREATE:
        return rows_token_create(all->keys, all->writer, &msg->u.token_create, ret);
    case MSG_TOKEN_REVOKE:
        return rows_token_revoke(all->keys, all->writer, msg->u.token_revoke.key, ret);
    case MSG_TOKEN_ROTATE:
        return rows_token_rotate(all->keys, all->writer, msg->u.token_rotate.step, ret);
    case MSG_TOKENS:
        return rows_tokens(all->keys, ret);
    case MSG_AUDIT:
        return rows_audit(all->writer, ret);
    case MSG_AGENTS:
        return rows_agents(all, s->by, ret);
    case MSG_DEMAND:
        return rows_demand(all->pool, ret);
    case MSG_GAUGES:
        return rows_gauges(all, ret);
    case MSG_BANS:
        return rows_bans(all->bans, s->by, ret);
    case MSG_POOL_NODES:
        return rows_pool(all->pool, ret);
    }
    return rows_pool_order(all->pool, s->by, msg, ret);
}

/* Returns the job of an order, valid until the next step of the core; NULL if it concerns none or
 * several. */
static const char *job_of_order(const struct session *s, const struct tfe_msg *msg)
{
    struct rdzv_found found;
    const char *node = NULL;
    switch ((int)msg->type) {
    case MSG_DRAIN:
        node = msg->u.drain.node;
        break;
    case MSG_EVICT:
        node = msg->u.evict.node;
        break;
    case MSG_REVOKE_AGENT:
        node = msg->u.revoke_agent.node;
        break;
    }
    if (!node) {
        return msg_job(msg);
    }
    return rdzv_find_node(s->all->rdzv, s->by, node, &found) == 0 && found.n == 1 ? found.v[0].job
                                                                                  : NULL;
}

/* Returns true, with the refusal sent, if the token exceeds its rate of orders. Each order is an
 * audit row; refused orders share one row. */
static bool orders_too_often(struct session *s)
{
    const uint8_t *key = s->by->origin;
    uint64_t refused;
    if (admission_claim_of(s->by, 1).is_privileged) {
        return false;
    }
    if (!throttle_pass(s->all->orders, key, sizeof(s->by->origin), &refused)) {
        session_refuse(s, REFUSAL_LIMIT_REACHED,
                       "order rate of this token is exceeded (try again later)");
        return true;
    }
    refused = throttle_suppressed(s->all->orders, key, sizeof(s->by->origin));
    if (refused > 0) {
        char about[64];
        (void)snprintf(about, sizeof(about), "%llu orders above the rate limit",
                       (unsigned long long)refused);
        session_audit(s, "refused", about, msg_refusal_name(REFUSAL_LIMIT_REACHED));
    }
    return false;
}

/* Stores the order until it is acknowledged. Returns false if out of memory. */
static bool note_order(struct session *s, const struct tfe_msg *msg, const char *about)
{
    s->order = calloc(1, sizeof(*s->order));
    if (s->order) {
        s->order->type = msg->type;
        (void)snprintf(s->order->about, sizeof(s->order->about), "%s", about);
        const char *job = job_of_order(s, msg);
        if (job) {
            (void)id_set(&s->order->job, job); /* the codec has validated the id */
        }
    }
    return s->order != NULL;
}

void session_query(struct session *s, const struct tfe_msg *msg)
{
    struct rows *rows;
    if (s->response) {
        session_refuse(s, REFUSAL_LIMIT_REACHED,
                       "the previous request of this session has not completed");
        session_finish(s);
        return;
    }
    char buf[MSG_AUDIT_ABOUT_MAX];
    const char *about = audit_about(msg, buf);
    if (about && orders_too_often(s)) {
        return;
    }
    int rc = !about || note_order(s, msg, about) ? find_rows(s, msg, &rows) : TFE_ENOMEM;
    if (rc == 0 && rows) {
        rc = respond(s, rows);
    } else if (rc == 0) {
        rc = execute_order(s, msg);
    }
    if (rc != 0) {
        session_disconnect(s);
    }
}
