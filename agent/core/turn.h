/* agent/core/turn.h: the step context that every part of the core receives: configuration, random
 * generator, time of the current event, list of actions, and requests that the dispatcher carries
 * out after the event's handler. */
#ifndef TFE_AGENT_CORE_TURN_H
#define TFE_AGENT_CORE_TURN_H

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

struct turn {
    struct agent_config config;
    bool is_up;   /* set by link.c: the server has accepted this node on the current connection */
    bool is_idle; /* set by work.c: no trainer runs on this node */
    struct rng rng;
    struct tfe_id tensorflow; /* version of TensorFlow on this node; "" if unknown */
    struct tfe_mono now;
    struct agent_action actions[ACTIONS_MAX];
    size_t n_actions;

    bool wants_join;  /* send JOIN again on the same connection */
    bool wants_ready; /* send READY if it is requested and the node is ready */
    /* The first request to leave wins and stays in force across events. */
    enum leave_how leave;
    bool leaves_now; /* exit even if processes still run */
    int exit_code;
    const char *exit_sentence; /* points to sentence, or NULL */
    char sentence[MSG_SENTENCE_MAX];
};

/* Returns the version of TensorFlow, or NULL if unknown. */
static inline const char *turn_tensorflow(const struct turn *t)
{
    return t->tensorflow.text[0] ? t->tensorflow.text : NULL;
}

struct agent_action *turn_order(struct turn *t, enum agent_action_type type);
struct tfe_msg *turn_send(struct turn *t, enum tfe_msg_type type);
/* Starts a message to the server. Returns NULL if no server is connected. */
struct tfe_msg *turn_tell(struct turn *t, enum tfe_msg_type type);
struct agent_trace *turn_trace(struct turn *t, enum agent_trace_kind kind, uint64_t epoch,
                               uint64_t number, const char *text);

/* Requests the end of the agent, unless one is already requested. Copies sentence, which may be
 * NULL. */
void turn_leave(struct turn *t, enum leave_how how, int code, const char *sentence);

/* Returns true if the time has passed. */
bool turn_is_past(const struct turn *t, struct tfe_mono moment);
struct tfe_mono turn_in(const struct turn *t, int64_t ms);

#endif
