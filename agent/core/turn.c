/* agent/core/turn.c: implementation of turn.h. */
#include "agent/core/turn.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/base/text.h"

struct agent_action *turn_order(struct turn *t, enum agent_action_type type)
{
    TFE_ASSERT(t->n_actions < ACTIONS_MAX);
    struct agent_action *action = &t->actions[t->n_actions++];
    memset(action, 0, sizeof(*action));
    action->type = type;
    return action;
}

struct tfe_msg *turn_send(struct turn *t, enum tfe_msg_type type)
{
    struct tfe_msg *msg = &turn_order(t, AGENT_SEND)->msg;
    msg->type = type;
    return msg;
}

struct tfe_msg *turn_tell(struct turn *t, enum tfe_msg_type type)
{
    return t->is_up ? turn_send(t, type) : NULL;
}

struct agent_trace *turn_trace(struct turn *t, enum agent_trace_kind kind, uint64_t epoch,
                               uint64_t number, const char *text)
{
    struct agent_trace *trace = &turn_order(t, AGENT_TRACE)->trace;
    *trace = (struct agent_trace){.kind = kind, .epoch = epoch, .number = number, .text = text};
    return trace;
}

void turn_leave(struct turn *t, enum leave_how how, int code, const char *sentence)
{
    if (t->leave != LEAVE_NOT) {
        return;
    }
    t->leave = how;
    t->exit_code = code;
    if (sentence) {
        text_setf(t->sentence, sizeof(t->sentence), "%s", sentence);
        t->exit_sentence = t->sentence;
    }
}

bool turn_is_past(const struct turn *t, struct tfe_mono moment)
{
    return !tfe_mono_before(t->now, moment);
}

struct tfe_mono turn_in(const struct turn *t, int64_t ms)
{
    return tfe_mono_add(t->now, ms);
}
