/* server/query/operator.c: carries out the orders of operators. */
#include "server/query/operator.h"

#include <stdio.h>

#include "common/handshake/token.h"

static void refuse(struct operator_response *ret, enum tfe_refusal code)
{
    ret->msg = (struct tfe_msg){.type = MSG_REFUSED,
                                .u.refused = {.code = code, .sentence = ret->sentence}};
}

static void refuse_unknown_node(struct operator_response *ret, const char *name)
{
    (void)snprintf(ret->sentence, sizeof(ret->sentence),
                   "there is no node with the id or label \"%s\" on this server", name);
    refuse(ret, REFUSAL_NO_SUCH_NODE);
}

static void refuse_ambiguous(struct operator_response *ret, const char *name,
                             const struct rdzv_found *found)
{
    size_t cap = sizeof(ret->sentence);
    size_t at = (size_t)snprintf(ret->sentence, cap,
                                 "\"%s\" is ambiguous, %u nodes match (use an id):", name,
                                 (unsigned)found->n);
    /* One label and RDZV_FOUND_MAX ids are far shorter than the sentence buffer. */
    for (uint32_t i = 0; i < found->n && i < RDZV_FOUND_MAX && at < cap; i++) {
        at += (size_t)snprintf(ret->sentence + at, cap - at, "%s %s (job %s)", i > 0 ? "," : "",
                               found->v[i].node, found->v[i].job);
    }
    if (found->n > RDZV_FOUND_MAX && at < cap) {
        (void)snprintf(ret->sentence + at, cap - at, " and others");
    }
    refuse(ret, REFUSAL_BAD_REQUEST);
}

/* Fills in ret->job and ret->node. Returns false, with a refusal in *ret, if name matches no node
 * or several. */
static bool find_node(const struct rdzv *core, const struct principal *by, const char *name,
                      struct operator_response *ret)
{
    struct rdzv_found found;
    if (rdzv_find_node(core, by, name, &found) != 0) {
        refuse_unknown_node(ret, name);
        return false;
    }
    if (found.n > 1) {
        refuse_ambiguous(ret, name, &found);
        return false;
    }
    /* Copy the ids: the strings belong to the core and are invalid after the next step. They are
     * valid ids, so id_set() cannot fail. */
    (void)id_set(&ret->job, found.v[0].job);
    (void)id_set(&ret->node, found.v[0].node);
    (void)snprintf(ret->name, sizeof(ret->name), "%s", found.v[0].name);
    if (found.v[0].token_id) {
        token_id_text(found.v[0].token_id, ret->token);
    }
    return true;
}

/* Refuses an order that the job's state does not permit. */
static void refuse_state(const struct rdzv *core, enum rdzv_event_type type,
                         struct operator_response *ret)
{
    const char *job = ret->job.text;
    struct msg_status_job row;
    const size_t cap = sizeof(ret->sentence);
    if (type == RDZV_FORGET) {
        (void)snprintf(ret->sentence, cap,
                       "cannot forget job \"%s\": it or some of its trainers may still run (cancel "
                       "it and try again after its fence)",
                       job);
    } else if (rdzv_find_job(core, job, &row) == 0 && msg_job_is_over(row.state)) {
        (void)snprintf(ret->sentence, cap, "job \"%s\" has ended%s", job,
                       type == RDZV_RESIZE ? ": its agents set the sizes of its next run" : "");
    } else {
        (void)snprintf(ret->sentence, cap,
                       "job \"%s\" cannot grow now: it is not training, is at its maximum, has no "
                       "ready spare, or is about to end",
                       job);
    }
    refuse(ret, REFUSAL_CONFLICT);
}

void operator_execute(const struct rdzv *core, operator_step_fn step, void *ctx,
                      const struct principal *by, const struct tfe_msg *order,
                      struct operator_response *ret)
{
    struct rdzv_event event = {.type = RDZV_STOP_JOB, .by = by};
    *ret = (struct operator_response){.msg = {.type = MSG_DONE}};
    if (order->type == MSG_CANCEL) {
        (void)id_set(&ret->job, order->u.cancel.job); /* the codec has validated the id */
    } else if (order->type == MSG_GROW) {
        event.type = RDZV_GROW;
        (void)id_set(&ret->job, order->u.grow.job);
    } else if (order->type == MSG_FORGET) {
        event.type = RDZV_FORGET;
        (void)id_set(&ret->job, order->u.forget.job);
    } else if (order->type == MSG_SCALE) {
        event.type = RDZV_RESIZE;
        (void)id_set(&ret->job, order->u.scale.job);
        event.min_nodes = order->u.scale.min_nodes;
        event.max_nodes = order->u.scale.max_nodes;
        event.n_ps = order->u.scale.n_ps;
    } else {
        bool drains = order->type == MSG_DRAIN;
        event.type = drains ? RDZV_DRAIN : RDZV_EVICT;
        if (!find_node(core, by, drains ? order->u.drain.node : order->u.evict.node, ret)) {
            return;
        }
        event.node = ret->node.text;
        event.has_within = drains && order->u.drain.within_ms != MSG_UNSET;
        event.within_ms = event.has_within ? order->u.drain.within_ms : 0;
    }
    event.job = ret->job.text;
    int rc = step(ctx, &event);
    if (rc == TFE_ENOENT) {
        (void)snprintf(ret->sentence, sizeof(ret->sentence),
                       "there is no job \"%s\" on this server", ret->job.text);
        refuse(ret, REFUSAL_NO_SUCH_JOB);
    } else if (rc == TFE_ESTATE) {
        refuse_state(core, event.type, ret);
    } else if (rc == TFE_EAUTH && event.type == RDZV_RESIZE) {
        (void)snprintf(ret->sentence, sizeof(ret->sentence), "%s", rdzv_refusal(core));
        refuse(ret, REFUSAL_BAD_REQUEST);
    } else if (rc != 0) {
        (void)snprintf(ret->sentence, sizeof(ret->sentence),
                       "cannot execute the order: %s (try again later)", tfe_error_sentence(rc));
        refuse(ret, REFUSAL_LIMIT_REACHED);
    }
}
