/* common/message/principal.c: decides what a principal may do. */
#include "common/message/principal.h"

#include <stddef.h>
#include <string.h>

/* Permitted sender of a message: the last column of TFE_MSGS. */
enum sender { SENDER_NONE, SENDER_A, SENDER_S, SENDER_Q, SENDER_O };

static enum sender sender_of(enum tfe_msg_type type)
{
    switch (type) {
#define SENDER_CASE(NAME, name, number, sender)                                                    \
    case MSG_##NAME:                                                                               \
        return SENDER_##sender;
        TFE_MSGS(SENDER_CASE)
#undef SENDER_CASE
    }
    return SENDER_NONE;
}

const char *principal_role_name(enum principal_role role)
{
    static const char *const names[] = {"?", "agent", "observer", "admin"};
    return names[role >= PRINCIPAL_AGENT && role <= PRINCIPAL_ADMIN ? role : 0];
}

bool principal_has_expired(const struct principal *by, struct tfe_wall now)
{
    return by->expires.ms != 0 && now.ms >= by->expires.ms;
}

/* Matches job against a pattern in which '*' is any run of characters. On a mismatch the last star
 * absorbs one more character. */
static bool scope_has(const char *scope, const char *job)
{
    const char *behind_star = NULL;
    const char *taken = NULL;
    while (*job != '\0') {
        if (*scope == '*') {
            behind_star = ++scope;
            taken = job;
        } else if (*scope == *job) {
            scope++;
            job++;
        } else if (behind_star) {
            scope = behind_star;
            job = ++taken;
        } else {
            return false;
        }
    }
    while (*scope == '*') {
        scope++;
    }
    return *scope == '\0';
}

static bool is_about_one_job(enum tfe_msg_type type)
{
    return sender_of(type) == SENDER_A || type == MSG_STATUS || type == MSG_DRAIN ||
           type == MSG_EVICT || type == MSG_UNBAN || type == MSG_BANS || type == MSG_REVOKE_AGENT ||
           type == MSG_AGENTS || type == MSG_EVENTS || type == MSG_BUNDLE_HAVE ||
           type == MSG_BUNDLE_PUT;
}

static const char *role_fault(const struct principal *by, enum tfe_msg_type type)
{
    const enum sender sender = sender_of(type);
    if (by->role == PRINCIPAL_AGENT) {
        return sender == SENDER_A ? NULL : "an agent's token does not allow this";
    }
    if (sender == SENDER_O) {
        return by->role == PRINCIPAL_ADMIN
                   ? NULL
                   : "an observer's token does not allow this (use an admin's token)";
    }
    return sender == SENDER_Q ? NULL : "this token does not allow an agent's messages";
}

const char *principal_fault(const struct principal *by, enum tfe_msg_type type, const char *job)
{
    const char *fault = role_fault(by, type);
    if (fault || strcmp(by->scope, PRINCIPAL_EVERY_JOB) == 0) {
        return fault;
    }
    if (!job) {
        return is_about_one_job(type) ? NULL
                                      : "this token is limited to some jobs (use one for all jobs)";
    }
    return scope_has(by->scope, job) ? NULL : "this token is not for that job";
}
