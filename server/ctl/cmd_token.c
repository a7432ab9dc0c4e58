/* server/ctl/cmd_token.c: tfe-ctl token create, rotate. */
#include <stdio.h>
#include <string.h>

#include "common/cli/option_table.h"
#include "common/message/principal.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* --- create --- */

static int parse_role(void *settings, const char *value, struct tfe_reason *reason)
{
    struct ctl_settings *s = settings;
    for (uint32_t role = PRINCIPAL_AGENT; role <= PRINCIPAL_ADMIN; role++) {
        if (strcmp(value, principal_role_name((enum principal_role)role)) == 0) {
            s->role = role;
            return 0;
        }
    }
    reason_set(reason, "it is agent, observer or admin");
    return TFE_EINVAL;
}

static void set_create(const struct ctl_settings *settings, struct tfe_msg *message)
{
    message->u.token_create =
        (struct msg_token_create){.role = settings->role,
                                  .scope = settings->job,
                                  .ttl_ms = settings->ttl_ms,
                                  .uses = settings->uses,
                                  .label = settings->label ? settings->label : "",
                                  .quota = settings->quota};
}

static int create_show(const struct ctl_settings *settings, const char *operand,
                       struct record_list *rows)
{
    if (rows->n != 1) {
        return TFE_ESTATE;
    }
    const struct msg_token *token = rows->v[0].at;
    (void)puts(token->text);
    return 0;
}

static const struct option_spec create_options[] = {
    PARSE("role", parse_role, "ROLE", "agent", "agent, observer or admin"),
    TEXT("job", job, "PATTERN", "*",
         "pattern of the jobs that the token is valid for; * matches any characters"),
    TIME("ttl", ttl_ms, 0, MSG_DURATION_MAX_MS, "24h",
         "lifetime of the token and its sessions; 0: unlimited"),
    NUMBER("uses", uses, "N", 0, MSG_KEY_USES_MAX, "0",
           "agent token: maximum number of nodes that join with it; 0: no limit"),
    TEXT("label", label, "LABEL", NULL, "label of the token"),
    NUMBER("quota", quota, "N", 0, MSG_NODES_MAX, "0",
           "admin token: maximum number of pool nodes of all jobs of --job together; 65536: no "
           "limit; 0: unchanged"),
};

const struct ctl_verb ctl_verb_token_create = {
    .name = "token create",
    .about = "create a token and print it; it cannot be shown again",
    .options = create_options,
    .n_options = COUNT(create_options),
    .operation = OPERATION_TOKEN_CREATE,
    .set_request = set_create,
    .show = create_show,
};

/* --- rotate --- */

static void set_step(const struct ctl_settings *settings, struct tfe_msg *message)
{
    message->u.token_rotate.step = settings->install  ? ROTATE_INSTALL
                                   : settings->use    ? ROTATE_USE
                                   : settings->remove ? ROTATE_REMOVE
                                                      : ROTATE_RENEW;
}

static const struct option_spec rotate_options[] = {
    FLAG("install", install, "only add a root, without creating tokens with it"),
    FLAG("use", use, "only switch to the newest root, and renew the tokens of the state directory"),
    FLAG("remove", remove, "remove roots older than the one in use; their tokens and sessions end"),
};

const struct ctl_verb ctl_verb_token_rotate = {
    .name = "token rotate",
    .about = "replace the tokens of the state directory by tokens of a new root",
    .options = rotate_options,
    .n_options = COUNT(rotate_options),
    .operation = OPERATION_TOKEN_ROTATE,
    .set_request = set_step,
    .done = "the token root was rotated",
};
