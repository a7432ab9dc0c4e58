/* agent/core/turn.h: what every part of the core is given: the configuration, chance, the time of
 * the event that is being taken in, the list that orders go to, and the wishes that the door
 * settles once the event's handler is through. */
#ifndef TFE_AGENT_CORE_TURN_H
#define TFE_AGENT_CORE_TURN_H

#include "agent/core/agent.h"
#include "common/base/rng.h"

/* Actions of one step: a handful of messages, traces and orders, whatever the event. */
#define ACTIONS_MAX 32

/* How the agent ends, once nothing runs any more. */
enum leave_how {
    LEAVE_NOT,
    LEAVE_WITH_GOODBYE, /* drain: tell the server, then exit */
    LEAVE_AT_ONCE
};

struct turn {
    struct agent_config config;
    bool is_up;   /* link.c's word: a server knows this node, and listens */
    bool is_idle; /* work.c's: nothing runs here */
    struct rng rng;
    struct tfe_id tensorflow; /* its version here; "": not known */
    struct tfe_mono now;
    struct agent_action actions[ACTIONS_MAX];
    size_t n_actions;

    bool wants_join;  /* once more, on the same connection */
    bool wants_ready; /* READY, if it is wanted and true */
    /* The first wish to leave stays, from event to event. */
    enum leave_how leave;
    bool leaves_now; /* whatever still runs */
    int exit_code;
    const char *exit_sentence; /* NULL, or sentence */
    char sentence[MSG_SENTENCE_MAX];
};

/* As it is told; NULL: not known. */
static inline const char *turn_tensorflow(const struct turn *t)
{
    return t->tensorflow.text[0] ? t->tensorflow.text : NULL;
}

struct agent_action *turn_order(struct turn *t, enum agent_action_type type);
struct tfe_msg *turn_send(struct turn *t, enum tfe_msg_type type);
/* … to a server that knows this node. NULL: there is none just now. */
struct tfe_msg *turn_tell(struct turn *t, enum tfe_msg_type type);
struct agent_trace *turn_trace(struct turn *t, enum agent_trace_kind kind, uint64_t epoch,
                               uint64_t number, const char *text);

/* sentence is copied, and may be NULL. */
void turn_leave(struct turn *t, enum leave_how how, int code, const char *sentence);

/* Whether the moment has come. */
bool turn_is_past(const struct turn *t, struct tfe_mono moment);
struct tfe_mono turn_in(const struct turn *t, int64_t ms);

#endif
