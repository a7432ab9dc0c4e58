/* agent/core/step_context.c: implementation of step_context.h. */
#include "agent/core/step_context.h"

#include <string.h>

#include "common/base/assert.h"
#include "common/text/text.h"

struct agent_action *step_add_action(struct step_context *t, enum agent_action_type type)
{
    TFE_ASSERT(t->n_actions < ACTIONS_MAX);
    struct agent_action *action = &t->actions[t->n_actions++];
    memset(action, 0, sizeof(*action));
    action->type = type;
    return action;
}

struct tfe_msg *step_send(struct step_context *t, enum tfe_msg_type type)
{
    struct tfe_msg *msg = &step_add_action(t, AGENT_SEND)->msg;
    msg->type = type;
    return msg;
}

struct tfe_msg *step_send_if_up(struct step_context *t, enum tfe_msg_type type)
{
    return t->is_up ? step_send(t, type) : NULL;
}

struct agent_trace *step_trace(struct step_context *t, enum agent_trace_kind kind, uint64_t epoch,
                               uint64_t number, const char *text)
{
    struct agent_trace *trace = &step_add_action(t, AGENT_TRACE)->trace;
    *trace = (struct agent_trace){.kind = kind, .epoch = epoch, .number = number, .text = text};
    return trace;
}

void step_leave(struct step_context *t, enum leave_how how, int code, const char *sentence)
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

bool step_is_past(const struct step_context *t, struct tfe_mono moment)
{
    return !tfe_mono_before(t->now, moment);
}

struct tfe_mono step_deadline_in(const struct step_context *t, int64_t ms)
{
    return tfe_mono_add(t->now, ms);
}
