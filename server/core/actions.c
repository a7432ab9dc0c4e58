/* server/core/actions.c: the list of actions of one step. */
#include "server/core/core.h"

/* One event makes at most two messages for every node of a job (STOP and PREPARE, TABLE and START,
 * FINISH and CLOSE) or three PROBEs, for the newcomers of a begun epoch one more, for a drained
 * node whose trainers ended before its epoch does all of STOP, PREPARE, a trace, FINISH and CLOSE,
 * and a handful besides. */
#define ACTIONS_PER_NODE 6
#define ACTIONS_BESIDES 64

int actions_reserve(struct rdzv *r, const struct job *job)
{
    size_t nodes = job ? (size_t)job->n_nodes + 1 : 1;
    void *v = r->actions;
    int rc =
        mem_reserve(r->mem, &v, &r->cap_actions,
                    r->n_actions + nodes * ACTIONS_PER_NODE + ACTIONS_BESIDES, sizeof(*r->actions));
    r->actions = v;
    return rc;
}

static struct rdzv_action *push(struct rdzv *r, enum rdzv_action_type type)
{
    TFE_ASSERT(r->n_actions < r->cap_actions);
    struct rdzv_action *action = &r->actions[r->n_actions++];
    *action = (struct rdzv_action){.type = type};
    return action;
}

struct tfe_msg *send_to(struct rdzv *r, uint32_t session, enum tfe_msg_type type)
{
    struct rdzv_action *action = push(r, RDZV_SEND);
    action->session = session;
    action->msg.type = type;
    return &action->msg;
}

void send_close(struct rdzv *r, uint32_t session)
{
    r->by_session[session] = NULL;
    push(r, RDZV_CLOSE)->session = session;
}

void send_persist(struct rdzv *r, const struct rdzv_record *record)
{
    push(r, RDZV_PERSIST)->record = record;
}

void send_exit(struct rdzv *r, const char *sentence)
{
    push(r, RDZV_EXIT)->sentence = sentence;
}

void send_ledger(struct rdzv *r, const struct rdzv_ledger *ledger)
{
    push(r, RDZV_LEDGER)->ledger = ledger;
}

void send_refused(struct rdzv *r, uint32_t session, enum tfe_refusal code, const char *sentence)
{
    struct tfe_msg *msg = send_to(r, session, MSG_REFUSED);
    msg->u.refused.code = code;
    msg->u.refused.sentence = sentence;
}

struct rdzv_trace *send_trace(struct rdzv *r, enum rdzv_trace_kind kind, const struct job *job,
                              const struct node *node, uint64_t number, const char *text)
{
    struct rdzv_trace *trace = &push(r, RDZV_TRACE)->trace;
    *trace = (struct rdzv_trace){
        .kind = kind,
        .job = job ? job->name.text : NULL,
        .node = node ? node->id.text : NULL,
        .epoch = job ? job->epoch.number : 0,
        .number = number,
        .text = text,
    };
    return trace;
}
