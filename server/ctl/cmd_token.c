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
    TEXT("job", job, "PATTERN", "*", "the jobs that it is good for; * is any run of characters"),
    TIME("ttl", ttl_ms, 0, MSG_DURATION_MAX_MS, "24h",
         "it ends then, and its sessions with it; 0: never"),
    NUMBER("uses", uses, "N", 0, MSG_KEY_USES_MAX, "0",
           "an agent's: so many nodes may join with it; 0: any number"),
    TEXT("label", label, "LABEL", NULL, "what people call it"),
    NUMBER("quota", quota, "N", 0, MSG_NODES_MAX, "0",
           "an admin's: all jobs of --job together have at most N nodes of the pool from now on; "
           "65536: any number; 0: as before"),
};

const struct ctl_verb ctl_verb_token_create = {
    .name = "token create",
    .about = "make a token, which is shown this once",
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
    FLAG("install", install, "only add a root, which nothing is made with yet"),
    FLAG("use", use,
         "only make new tokens with the newest root, those of the state directory first"),
    FLAG("remove", remove,
         "remove the roots older than the one in use: their tokens and sessions end"),
};

const struct ctl_verb ctl_verb_token_rotate = {
    .name = "token rotate",
    .about = "make the tokens of the state directory anew, with a root of their own",
    .options = rotate_options,
    .n_options = COUNT(rotate_options),
    .operation = OPERATION_TOKEN_ROTATE,
    .set_request = set_step,
    .done = "the ring of roots was turned",
};
