/* server/ctl/cmd_token.c: tfe-ctl token create, list, revoke, rotate. */
#include <stdio.h>
#include <string.h>

#include "common/cli/option_table.h"
#include "common/message/principal.h"
#include "common/records/schemas.h"
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

static void create_say(const struct ctl_settings *settings, struct tfe_msg *message)
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
    (void)operand;
    if (rows->n != 1) {
        return TFE_ESTATE;
    }
    const struct msg_token *token = rows->v[0].at;
    if (settings->json) {
        return verb_print_json(json_pack("{s:s, s:s}", "key", token->key, "token", token->text));
    }
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
    .usage = "tfe-ctl token create [OPTIONS]",
    .about = "make a token, which is shown this once",
    .options = create_options,
    .n_options = COUNT(create_options),
    .is_order = true,
    .says = MSG_TOKEN_CREATE,
    .say_more = create_say,
    .rows = {MSG_TOKEN},
    .show = create_show,
};

/* --- list --- */

static int list_show(const struct ctl_settings *settings, const char *operand,
                     struct record_list *rows)
{
    static const char *const heads[] = {"KEY",  "ROLE",  "JOBS",    "LABEL", "ROOT",
                                        "USES", "QUOTA", "EXPIRES", "STATE"};
    static const struct text_table keys = {&schema_token_row, heads, COUNT(heads)};
    (void)operand;
    return verb_show_table(settings, "keys", &keys, rows, NULL);
}

const struct ctl_verb ctl_verb_token_list = {
    .name = "token list",
    .usage = "tfe-ctl token list [OPTIONS]",
    .about = "show the keys that the server knows of, and no secret",
    .is_order = true,
    .says = MSG_TOKENS,
    .rows = {MSG_TOKEN_ROW},
    .show = list_show,
};

/* --- revoke --- */

const struct ctl_verb ctl_verb_token_revoke = {
    .name = "token revoke",
    .usage = "tfe-ctl token revoke [OPTIONS] KEY",
    .about = "take a token back, by its id or label: its sessions end at once",
    .needs_operand = true,
    .operand = CTL_KEY,
    CTL_SAYS(MSG_TOKEN_REVOKE, token_revoke.key),
    .done = "was revoked",
};

/* --- rotate --- */

static void rotate_say(const struct ctl_settings *settings, struct tfe_msg *message)
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
    .usage = "tfe-ctl token rotate [OPTIONS]",
    .about = "make the tokens of the state directory anew, with a root of their own",
    .options = rotate_options,
    .n_options = COUNT(rotate_options),
    .says = MSG_TOKEN_ROTATE,
    .say_more = rotate_say,
    .done = "the ring of roots was turned",
};
