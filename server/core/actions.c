/* server/core/actions.c: the actions of one step. */
#include "server/core/actions.h"

#include "server/core/job.h"

/* Maximum number of actions of one event. For every node of a job: at most two messages (STOP and
 * PREPARE, TABLE and START, FINISH and CLOSE) or three PROBEs; one more for a spare of an epoch
 * that starts; STOP, PREPARE, a trace, FINISH and CLOSE for a drained node whose trainers ended
 * before its epoch does. And a few more per event. */
#define ACTIONS_PER_NODE 6
#define ACTIONS_BESIDES 64

int actions_reserve(struct rdzv *r, const struct job *job)
{
    struct action_list *out = &r->out;
    size_t nodes = job ? (size_t)job->n_nodes + 1 : 1;
    return mem_reserve(r->mem, &out->v, &out->cap,
                       out->n + nodes * ACTIONS_PER_NODE + ACTIONS_BESIDES, sizeof(*out->v));
}

struct rdzv_action *send_action(struct rdzv *r, enum rdzv_action_type type)
{
    TFE_ASSERT(r->out.n < r->out.cap);
    struct rdzv_action *action = &r->out.v[r->out.n++];
    *action = (struct rdzv_action){.type = type};
    return action;
}

struct tfe_msg *send_to(struct rdzv *r, uint32_t session, enum tfe_msg_type type)
{
    struct rdzv_action *action = send_action(r, RDZV_SEND);
    action->session = session;
    action->msg.type = type;
    return &action->msg;
}

struct tfe_msg *send_node(struct rdzv *r, const struct node *node, enum tfe_msg_type type)
{
    return send_to(r, node->session.number, type);
}

void send_close(struct rdzv *r, uint32_t session)
{
    r->by_session[session] = NULL;
    send_action(r, RDZV_CLOSE)->session = session;
}

void send_finish(struct rdzv *r, uint32_t session, enum tfe_result result, uint32_t run,
                 const char *sentence)
{
    send_to(r, session, MSG_FINISH)->u.finish =
        (struct msg_finish){.result = result, .run = run, .sentence = sentence};
    send_close(r, session);
}

void send_refused(struct rdzv *r, uint32_t session, enum tfe_refusal code, const char *sentence)
{
    struct tfe_msg *msg = send_to(r, session, MSG_REFUSED);
    msg->u.refused.code = code;
    msg->u.refused.sentence = sentence;
}

void send_stop(struct rdzv *r, const struct node *node, uint64_t epoch)
{
    send_node(r, node, MSG_STOP)->u.stop.epoch = epoch;
}

void send_noted(struct rdzv *r, const struct node *node, uint64_t epoch)
{
    send_node(r, node, MSG_NOTED)->u.noted.epoch = epoch;
}

struct rdzv_trace *send_trace(struct rdzv *r, enum rdzv_trace_kind kind, const struct job *job,
                              const struct node *node, uint64_t number, const char *text)
{
    struct rdzv_trace *trace = &send_action(r, RDZV_TRACE)->trace;
    *trace = (struct rdzv_trace){
        .kind = kind,
        .job = job ? job->name.text : NULL,
        .node = node ? node->id.text : NULL,
        .name = node ? node->name : NULL,
        .epoch = job ? job->epoch.number : 0,
        .number = number,
        .text = text,
    };
    return trace;
}
