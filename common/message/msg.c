/* common/message/msg.c: names of messages and of their enumerated values, and the job that a
 * message names. */
#include "common/message/msg.h"

const char *msg_type_name(enum tfe_msg_type type)
{
    switch ((int)type) {
#define MSG_TYPE_NAME(NAME, name, number, sender)                                                  \
    case number:                                                                                   \
        return #NAME;
        TFE_MSGS(MSG_TYPE_NAME)
#undef MSG_TYPE_NAME
    }
    return "?";
}

/* Generates one switch per enum; an unknown value falls through to "?". */
#define NAME_OF(NAME, number, name)                                                                \
    case number:                                                                                   \
        return name;
#define NAMES(function, type, LIST)                                                                \
    const char *function(enum type value)                                                          \
    {                                                                                              \
        switch ((int)value) {                                                                      \
            LIST(NAME_OF)                                                                          \
        }                                                                                          \
        return "?";                                                                                \
    }

NAMES(msg_refusal_name, tfe_refusal, TFE_REFUSALS)
NAMES(msg_cause_name, tfe_cause, TFE_CAUSES)
NAMES(msg_result_name, tfe_result, TFE_RESULTS)
NAMES(msg_role_name, tfe_node_role, TFE_ROLES)
NAMES(msg_task_name, tfe_task, TFE_TASKS)
NAMES(msg_notice_name, tfe_notice, TFE_NOTICES)
NAMES(msg_probe_kind_name, tfe_probe_kind, TFE_PROBE_KINDS)
NAMES(msg_probe_result_name, tfe_probe_result, TFE_PROBE_RESULTS)
NAMES(msg_ending_name, tfe_ending, TFE_ENDINGS)
NAMES(msg_rotation_name, tfe_rotation, TFE_ROTATIONS)
NAMES(msg_stream_name, tfe_stream, TFE_STREAMS)
NAMES(msg_job_state_name, tfe_job_state, TFE_JOB_STATES)
NAMES(msg_standby_name, tfe_standby, TFE_STANDBYS)
NAMES(msg_artifact_name, tfe_artifact, TFE_ARTIFACTS)
NAMES(msg_out_name, tfe_out, TFE_OUTS)
NAMES(msg_event_level_name, tfe_event_level, TFE_EVENT_LEVELS)
NAMES(msg_restart_policy_name, tfe_restart_policy, TFE_RESTART_POLICIES)

const char *msg_job(const struct tfe_msg *msg)
{
    switch ((int)msg->type) {
    case MSG_JOIN:
        return msg->u.join.job;
    case MSG_STATUS:
        return msg->u.status.job;
    case MSG_EPOCHS:
        return msg->u.epochs.job;
    case MSG_LOGS:
        return msg->u.logs.job;
    case MSG_EVENTS:
        return msg->u.events.job;
    case MSG_SERIES:
        return msg->u.series.job;
    case MSG_GROW:
        return msg->u.grow.job;
    case MSG_FORGET:
        return msg->u.forget.job;
    case MSG_SUBMIT:
        return msg->u.submit.job;
    case MSG_SCALE:
        return msg->u.scale.job;
    case MSG_SUSPEND:
        return msg->u.suspend.job;
    case MSG_RESUME:
        return msg->u.resume.job;
    case MSG_CANCEL:
        return msg->u.cancel.job;
    case MSG_RERUN:
        return msg->u.rerun.job;
    }
    return NULL;
}
