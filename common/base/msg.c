/* common/base/msg.c: names of messages and of their enumerated values. */
#include "common/base/msg.h"

/* Each list becomes one switch; a number that no build knows falls out of it. */
#define MSG_NAME_OF(NAME, number, name)                                                            \
    case number:                                                                                   \
        return name;

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

const char *msg_refusal_name(enum tfe_refusal code)
{
    switch ((int)code) {
        TFE_REFUSALS(MSG_NAME_OF)
    }
    return "?";
}

const char *msg_cause_name(enum tfe_cause cause)
{
    switch ((int)cause) {
        TFE_CAUSES(MSG_NAME_OF)
    }
    return "?";
}

const char *msg_result_name(enum tfe_result result)
{
    switch ((int)result) {
        TFE_RESULTS(MSG_NAME_OF)
    }
    return "?";
}

const char *msg_role_name(enum tfe_node_role role)
{
    switch ((int)role) {
        TFE_ROLES(MSG_NAME_OF)
    }
    return "?";
}

const char *msg_notice_name(enum tfe_notice kind)
{
    switch ((int)kind) {
        TFE_NOTICES(MSG_NAME_OF)
    }
    return "?";
}

const char *msg_probe_kind_name(enum tfe_probe_kind kind)
{
    switch ((int)kind) {
        TFE_PROBE_KINDS(MSG_NAME_OF)
    }
    return "?";
}

const char *msg_probe_result_name(enum tfe_probe_result result)
{
    switch ((int)result) {
        TFE_PROBE_RESULTS(MSG_NAME_OF)
    }
    return "?";
}

const char *msg_ending_name(enum tfe_ending ending)
{
    switch ((int)ending) {
        TFE_ENDINGS(MSG_NAME_OF)
    }
    return "?";
}
