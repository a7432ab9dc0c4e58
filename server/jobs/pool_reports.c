/* server/jobs/pool_reports.c: handles messages of pool nodes, and the end of their connections and
 * leases. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/cli/log.h"
#include "common/records/schemas.h"
#include "common/text/text.h"
#include "server/jobs/pool_private.h"
#include "server/session.h"

/* Rest of a node whose agent failed at once, doubling with each failure. */
#define REST_MS 1000
#define REST_MAX_MS 60000

/* Passes an event about a node to the scheduler; the timer carries out the decisions, because
 * thousands of nodes may come or go in one iteration of the loop. */
static int step_node(struct pool *p, struct placement_event event)
{
    event.is_more_to_come = true;
    return pool_step(p, event);
}

/* --- messages of nodes --- */

static void reject(struct session *s, enum tfe_refusal code, const char *sentence)
{
    session_refuse(s, code, sentence);
    session_finish(s);
}

/* Replaces what the node reported about itself. Returns false if out of memory. */
static bool store_report(struct pool_node *node, const struct msg_pool_row *row)
{
    struct msg_pool_row *copy = record_copy(&schema_pool_node, row);
    if (copy) {
        free(node->row);
        node->row = copy;
    }
    return copy != NULL;
}

static bool keep_pool(struct pool_node *node, const struct msg_pool *msg)
{
    char labels[MSG_POOL_LABELS_MAX * (MSG_POOL_LABEL_MAX + 1)];
    struct text text;
    struct msg_pool_row row = {.node = node->id.text,
                               .name = msg->node_name,
                               .labels = labels,
                               .host = msg->host,
                               .state = "",
                               .job = ""};
    text_init(&text, labels, sizeof(labels));
    for (size_t i = 0; i < msg->n_labels; i++) {
        text_add(&text, i > 0 ? "," : "");
        text_add(&text, msg->labels[i]);
    }
    if (node->row) {
        row.machine_info = node->row->machine_info;
    }
    return store_report(node, &row);
}

/* Returns a spot label made from what the cloud reports; NULL if it reports nothing or the node
 * has a label of its own. */
static const char *spot_label(const struct pool_node *node)
{
    const struct msg_machine_info *machine_info = &node->row->machine_info;
    return node->has_spot_label || !machine_info->has_spot ? NULL
           : machine_info->is_spot                         ? "spot=true"
                                                           : "spot=false";
}

/* Adds the node to the scheduler, with its labels, the cloud's report, and the jobs that its token
 * is for. */
static int came(struct pool *p, struct pool_node *node, const struct session *s,
                const struct msg_pool *msg)
{
    const char *labels[MSG_POOL_LABELS_MAX + 2];
    _Static_assert(MSG_POOL_LABELS_MAX + 2 <= PLACEMENT_LABELS_MAX, "they fit");
    char scope[sizeof(PLACEMENT_SCOPE) + MSG_SCOPE_MAX];
    size_t n = msg->n_labels;
    node->has_spot_label = false;
    for (size_t i = 0; i < n; i++) {
        labels[i] = msg->labels[i];
        node->has_spot_label = node->has_spot_label || strncmp(labels[i], "spot=", 5) == 0;
    }
    if (strcmp(s->by->scope, PRINCIPAL_EVERY_JOB) != 0) {
        (void)snprintf(scope, sizeof(scope), PLACEMENT_SCOPE "%s", s->by->scope);
        labels[n++] = scope;
    }
    const char *spot = spot_label(node);
    if (spot) {
        labels[n++] = spot;
    }
    struct placement_event event = {.type = PLACEMENT_NODE_CONNECTED,
                                    .node = node->id.text,
                                    .assignment = msg->assignment,
                                    .labels = labels,
                                    .n_labels = n,
                                    .idle_exit_ms = msg->idle_exit_ms,
                                    .floor = msg->floor};
    int rc = step_node(p, event);
    if (rc == TFE_EFULL && spot) { /* too many labels: as if the cloud had reported nothing */
        event.n_labels--;
        rc = step_node(p, event);
    }
    return rc;
}

static void take_pool(struct pool *p, struct session *s, const struct msg_pool *msg)
{
    struct pool_node *node = pool_node_find(p, msg->node);
    if (s->pooled && s->pooled != node) {
        reject(s, REFUSAL_BAD_REQUEST, "this session already belongs to another node");
        return;
    }
    bool is_new = !node;
    node = node ? node : pool_node_new(p, msg->node);
    if (!node || !keep_pool(node, msg)) {
        if (node && is_new) {
            pool_node_drop(p, node);
        }
        reject(s, REFUSAL_LIMIT_REACHED, "the server is out of memory (try again later)");
        return;
    }
    if (node->session && node->session != s) {
        struct session *old = node->session;
        node->session = NULL;
        old->pooled = NULL;
        if (old->phase == SESSION_OPEN) {
            reject(old, REFUSAL_NODE_REPLACED, "this node has opened a newer session");
        }
    }
    node->session = s;
    node->is_lost = false;
    s->pooled = node;
    pool_node_renew(p, node);
    if (msg->assignment != node->assignment) {
        pool_node_detach(p, node); /* an ASSIGN or FREED was lost, or an earlier server knew more */
        node->assignment = msg->assignment;
    }
    node->is_assign_sent = node->assignment != 0;
    const struct tfe_msg welcome = {.type = MSG_WELCOME,
                                    .u.welcome = {.node = node->id.text,
                                                  .incarnation = p->config.incarnation,
                                                  .run = 1,
                                                  .ttl_ms = p->config.ttl_ms,
                                                  .fence_ms = p->config.ttl_ms,
                                                  .renew_ms = p->config.ttl_ms / 3,
                                                  .spread_ms = p->config.ttl_ms / 10}};
    pool_node_send(node, &welcome);
    if (s->pooled && came(p, node, s, msg) != 0) {
        /* The node may have been here before: the scheduler must not assign it. */
        (void)step_node(
            p, (struct placement_event){.type = PLACEMENT_NODE_GONE, .node = node->id.text});
        pool_node_drop(p, node);
        reject(s, REFUSAL_LIMIT_REACHED,
               "the pool has too many different label sets, or the server is out of memory");
    } else if (s->pooled && node->out != OUT_NOT) {
        pool_node_send_removal(node, 0);
    }
}

static void take_renew(struct pool *p, struct pool_node *node, const struct msg_renew *msg)
{
    const struct tfe_msg renewed = {.type = MSG_RENEWED,
                                    .u.renewed = {.number = msg->number,
                                                  .ttl_ms = p->config.ttl_ms,
                                                  .fence_ms = p->config.ttl_ms}};
    pool_node_renew(p, node);
    pool_node_send(node, &renewed);
}

/* Returns true if the agent never worked for its job: it could not start, found no command, or was
 * not authorised. The node then rests. */
static bool is_failed_start(const struct pool_node *node, uint32_t code)
{
    return node->job && !node->job->is_over && !node->is_leaving && code != 0 && code != 130 &&
           code != 143;
}

/* Returns true if another try would fail alike: wrong usage, or a command that is missing or may
 * not be executed. Once an agent of the job has started, the fault may be the node's. */
static bool is_permanent_failure(const struct pool_job *job, uint32_t code)
{
    struct msg_status_job row;
    return (code == 2 || code == 126 || code == 127) && !pool_job_in_core(job, &row);
}

static void freed(struct pool *p, struct pool_node *node)
{
    const uint64_t assignment = node->assignment;
    const struct pool_job *job = node->job;
    pool_node_detach(p, node);
    if (job && job->is_over && TAILQ_EMPTY(&job->nodes)) {
        pool_stop_in_core(p, job); /* an agent that was about to join has opened it */
    }
    int rc = step_node(p, (struct placement_event){.type = PLACEMENT_NODE_FREED,
                                                   .node = node->id.text,
                                                   .assignment = assignment});
    if (rc == TFE_ENOMEM && node->session) {
        session_finish(node->session); /* the node repeats the message on its next connection */
    }
}

static void take_freed(struct pool *p, struct pool_node *node, const struct msg_freed *msg)
{
    struct pool_job *job = node->job;
    if (msg->assignment != node->assignment || !tfe_mono_is_never(node->rests)) {
        return;
    }
    log_info("pool_node_freed", LOG_S("node", node->id.text), LOG_U("code", msg->code),
             LOG_S("job", job ? job->name.text : NULL), LOG_S("reason", msg->message));
    if (job && job->is_stale) {
        pool_refresh(p, job);
    }
    if (!is_failed_start(node, msg->code)) {
        node->failures = 0;
        freed(p, node);
        return;
    }
    const bool is_permanent = is_permanent_failure(job, msg->code);
    node->failures = node->failed_job == job->number ? node->failures : 0;
    node->failed_job = job->number;
    const uint32_t n = node->failures++;
    text_setf(job->start_error, sizeof(job->start_error), "%.170s (exit code %u on %.60s)",
              msg->message[0] != '\0' ? msg->message : "its agent failed to start",
              (unsigned)msg->code, pool_node_label(node));
    node->rests = tfe_mono_add(clock_mono(), n < 6 ? (int64_t)REST_MS << n : (int64_t)REST_MAX_MS);
    node->since = clock_wall();
    pool_wake(p, node->rests);
    if (job->started.ms == 0 && (is_permanent || ++job->failures > job->needs.limit)) {
        pool_fail(p, job, is_permanent ? "CannotStart" : CONDITION_USED_UP, job->start_error);
    }
}

/* Returns a TFE_E* of the placement, with nothing changed. */
static int set_warned(struct pool *p, struct pool_node *node, bool is_noticed, bool is_unfit)
{
    const bool is_warned = is_noticed || is_unfit;
    const int rc = step_node(p, (struct placement_event){.type = PLACEMENT_NODE_WARNED,
                                                         .node = node->id.text,
                                                         .is_warned = is_warned});
    if (rc) {
        return rc;
    }
    node->is_noticed = is_noticed;
    node->is_unfit = is_unfit;
    if (node->is_warned != is_warned) {
        node->is_warned = is_warned;
        node->since = node->assignment == 0 ? clock_wall() : node->since;
        log_info(is_warned ? "pool_node_warned" : "pool_node_warned_no_more",
                 LOG_S("node", node->id.text), LOG_S("name", pool_node_label(node)),
                 LOG_S("failed_check", is_unfit ? node->row->machine_info.failed_check : NULL),
                 LOG_S("job", node->job ? node->job->name.text : NULL));
    }
    return 0;
}

static void apply_machine_info(struct pool *p, struct pool_node *node,
                               const struct msg_machine_info *machine_info)
{
    struct msg_pool_row row = *node->row;
    const char *before = spot_label(node);
    row.machine_info = *machine_info;
    if (!store_report(node, &row)) { /* out of memory: the information is not stored */
        return;
    }
    const bool is_unfit = machine_info->failed_check;
    if (is_unfit != node->is_unfit && set_warned(p, node, node->is_noticed, is_unfit)) {
        session_finish(node->session); /* the node reports it again on its next connection */
        return;
    }
    const char *spot = spot_label(node);
    if (spot && (!before || strcmp(spot, before) != 0) &&
        step_node(p, (struct placement_event){.type = PLACEMENT_NODE_LABELS,
                                              .node = node->id.text,
                                              .labels = &spot,
                                              .n_labels = 1}) != 0) {
        log_warn(
            "pool_node_spot_not_known", LOG_S("node", node->id.text),
            LOG_S("reason",
                  "the pool has too many different label sets, or the server is out of memory"));
    }
}

static void take_notice(struct pool *p, struct pool_node *node, const struct msg_notice *notice)
{
    const bool is_warned = !notice->withdrawn &&
                           notice->kind != NOTICE_REBALANCE; /* a rebalance hint does not count */
    if (notice->kind < NOTICE_REBALANCE || notice->kind > NOTICE_OPERATOR) {
        reject(node->session, REFUSAL_BAD_REQUEST, "unknown kind of notice");
        return;
    }
    if (set_warned(p, node, is_warned, node->is_unfit)) {
        session_finish(node->session); /* the node repeats the message on its next connection */
        return;
    }
    node->ends_at.ms =
        is_warned && notice->deadline_ms != MSG_UNSET ? clock_wall().ms + notice->deadline_ms : 0;
}

void pool_handle_message(struct pool *p, struct session *s, const struct tfe_msg *msg)
{
    struct pool_node *node = s->pooled;
    switch ((int)msg->type) {
    case MSG_POOL:
        take_pool(p, s, &msg->u.pool);
        return;
    case MSG_RENEW:
        take_renew(p, node, &msg->u.renew);
        return;
    case MSG_FREED:
        take_freed(p, node, &msg->u.freed);
        return;
    case MSG_FETCH:
        pool_files_fetch(p, node, &msg->u.fetch);
        return;
    case MSG_MACHINE_INFO:
        apply_machine_info(p, node, &msg->u.machine_info);
        return;
    case MSG_NOTICE:
        take_notice(p, node, &msg->u.notice);
        return;
    case MSG_MACHINE_STATS:
        return;
    case MSG_GOODBYE:
        session_finish(s);
        node->lease.ms = 0;
        TAILQ_REMOVE(&p->leases, node, by_lease);
        TAILQ_INSERT_HEAD(&p->leases, node, by_lease);
        return;
    }
    reject(s, REFUSAL_BAD_REQUEST, "unexpected message from a pool node");
}

const char *pool_node_id(const struct pool_node *node)
{
    return node->id.text;
}

void pool_drained(struct session *s)
{
    pool_files_drained(s->all->pool, s->pooled);
}

void pool_left(struct session *s)
{
    struct pool_node *node = s->pooled;
    s->pooled = NULL;
    if (!node) {
        return;
    }
    node->session = NULL;
    pool_files_leave(s->all->pool, node); /* the node asks again on its next connection */
    if (!s->all->stopping) {
        node->is_lost = true;
        node->since = clock_wall();
        pool_wake(s->all->pool, clock_mono());
    }
}

/* --- timers --- */

/* Handles lost connections: a free node is removed; the leases of others run. */
static void lose_some(struct pool *p)
{
    for (struct pool_node *node = RB_MIN(pool_tree, &p->nodes), *next; node; node = next) {
        next = RB_NEXT(pool_tree, &p->nodes, node);
        if (node->is_lost) {
            node->is_lost = false;
            (void)step_node(
                p, (struct placement_event){.type = PLACEMENT_NODE_LOST, .node = node->id.text});
            if (node->assignment == 0 && node->out == OUT_NOT) {
                pool_node_drop(p, node);
            }
        } else if (!tfe_mono_before(clock_mono(), node->rests)) {
            freed(p, node);
        } else {
            pool_wake(p, node->rests);
        }
    }
}

static void end_leases(struct pool *p)
{
    struct pool_node *node;
    while ((node = TAILQ_FIRST(&p->leases)) && !tfe_mono_before(clock_mono(), node->lease)) {
        struct session *s = node->session;
        if (node->lease.ms == 0) { /* by GOODBYE */
            log_info("pool_node_left", LOG_S("node", node->id.text),
                     LOG_S("name", pool_node_label(node)));
        } else {
            log_warn("pool_node_gone", LOG_S("node", node->id.text),
                     LOG_S("name", pool_node_label(node)));
        }
        (void)step_node(
            p, (struct placement_event){.type = PLACEMENT_NODE_GONE, .node = node->id.text});
        pool_node_drop(p, node);
        if (s && s->phase == SESSION_OPEN) {
            session_finish(s);
        }
    }
    if (node) {
        pool_wake(p, node->lease);
    }
}

void pool_nodes_check(struct pool *p)
{
    lose_some(p);
    end_leases(p);
}
