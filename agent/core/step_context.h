/* agent/core/step_context.h: the step context that every part of the core receives: configuration,
 * random generator, time of the current event, list of actions, and requests that the dispatcher
 * carries out after the event's handler. */
#ifndef TFE_AGENT_CORE_STEP_CONTEXT_H
#define TFE_AGENT_CORE_STEP_CONTEXT_H

#include "agent/core/agent.h"
#include "common/base/rng.h"

/* Maximum number of actions of one step; a step issues only a few messages, log entries and
 * orders. */
#define ACTIONS_MAX 32

/* How the agent ends once nothing runs. */
enum leave_how {
    LEAVE_NOT,
    LEAVE_WITH_GOODBYE, /* drain: send GOODBYE, then exit */
    LEAVE_AT_ONCE
};

struct step_context {
    struct agent_config config;
    bool is_up;   /* set by link.c: the server has accepted this node on the current connection */
    bool is_idle; /* set by work.c: no trainer runs on this node */
    struct rng rng;
    struct tfe_id tensorflow; /* version of TensorFlow on this node; "" if unknown */
    struct tfe_mono now;
    struct agent_action actions[ACTIONS_MAX];
    size_t n_actions;

    bool must_join;       /* send JOIN again on the same connection */
    bool must_send_ready; /* send READY if it is requested and the node is ready */
    /* The first request to leave wins and stays in force across events. */
    enum leave_how leave;
    bool exits_now; /* exit even if processes still run */
    int exit_code;
    const char *exit_sentence; /* points to sentence, or NULL */
    char sentence[MSG_SENTENCE_MAX];
};

/* Returns the version of TensorFlow, or NULL if unknown. */
static inline const char *step_tensorflow(const struct step_context *t)
{
    return t->tensorflow.text[0] ? t->tensorflow.text : NULL;
}

struct agent_action *step_add_action(struct step_context *t, enum agent_action_type type);
struct tfe_msg *step_send(struct step_context *t, enum tfe_msg_type type);
/* Starts a message to the server. Returns NULL if no server is connected. */
struct tfe_msg *step_send_if_up(struct step_context *t, enum tfe_msg_type type);
struct agent_trace *step_trace(struct step_context *t, enum agent_trace_kind kind, uint64_t epoch,
                               uint64_t number, const char *text);

/* Requests the end of the agent, unless one is already requested. Copies sentence, which may be
 * NULL. */
void step_leave(struct step_context *t, enum leave_how how, int code, const char *sentence);

/* Returns true if the time has passed. */
bool step_is_past(const struct step_context *t, struct tfe_mono moment);
struct tfe_mono step_deadline_in(const struct step_context *t, int64_t ms);

#endif
