/* common/credentials/join.c: finds endpoint and token in the order of design 9. */
#include "common/credentials/join.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/channel/endpoint.h"
#include "common/cli/secret_mem.h"
#include "common/credentials/enrollment.h"
#include "common/credentials/state_dir.h"
#include "common/text/text.h"

#define JOIN_PORT_DEFAULT 5556
#define JOIN_HOST_DEFAULT "localhost"

/* A token's text, with a description of its source. */
struct found {
    char text[TOKEN_TEXT_MAX + 64]; /* includes room for the white space that token_parse permits */
    struct tfe_reason source;
};

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value != '\0' ? value : NULL;
}

/* Returns an option's value if it came from the command line. Option tables also read the
 * environment, which has a lower priority here: a value that is the environment's own string does
 * not count. */
static const char *from_command_line(const char *value, const char *name)
{
    return value && *value != '\0' && value != getenv(name) ? value : NULL;
}

/* Adds a hint for secrets mounted by orchestrators: they belong to root with these modes, and chmod
 * fails on them. */
static void add_mount_hint(const char *path, struct tfe_reason *reason)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 &&
        ((st.st_mode & 0777) == 0444 || (st.st_mode & 0777) == 0644)) {
        const struct tfe_reason refused = *reason;
        reason_set(reason,
                   "%.400s; mount a secret with mode 0400 (Kubernetes: defaultMode, Swarm: mode)",
                   refused.text);
    }
}

/* Reads a token from its text, or from the file that holds it. */
static int read_token(struct found *found, const char *value, const char *source, bool is_file,
                      struct tfe_reason *reason)
{
    if (is_file) {
        if (state_dir_read_named_secret(value, found->text, sizeof found->text, reason)) {
            add_mount_hint(value, reason);
            reason_prefix(reason, "token from %s", source);
            return TFE_EAUTH;
        }
        reason_set(&found->source, "%s (%s)", source, value);
        return 0;
    }
    if (strlen(value) >= sizeof found->text) {
        reason_set(reason, "invalid token in %s: it is too long", source);
        return TFE_EAUTH;
    }
    strcpy(found->text, value);
    reason_set(&found->source, "%s", source);
    return 0;
}

static bool role_will_do(const struct join_config *config, enum principal_role role)
{
    for (unsigned i = 0; i < config->n_roles; i++) {
        if (config->roles[i] == role) {
            return true;
        }
    }
    return false;
}

/* Appends a word to a list: "admin", then "admin or observer". */
static void add_choice(struct tfe_reason *words, const char *word)
{
    const struct tfe_reason before = *words;
    reason_set(words, "%s%s%s", before.text, before.text[0] ? " or " : "", word);
}

/* Reads the token file of the first role that has one. If there is none, the reason lists all
 * places searched and how to get a token. */
static int read_state_dir_token(const struct join_config *config, struct found *found,
                                struct tfe_reason *reason)
{
    static const char order[] = "--token, --token-file, TFE_TOKEN, TFE_TOKEN_FILE";
    char directory[PATH_MAX];
    if (state_dir_find(config->state_dir, directory, reason)) {
        reason_prefix(reason, "no token in %s", order);
        return TFE_EAUTH;
    }
    struct tfe_reason unreadable = {.text = ""};
    struct tfe_reason names = {.text = ""};
    for (unsigned i = 0; i < config->n_roles; i++) {
        const char *name = state_dir_token_name(config->roles[i]);
        char path[PATH_MAX];
        struct tfe_reason detail;
        if (state_dir_path(path, directory, name, &detail)) {
            continue;
        }
        int rc = state_dir_read_secret(path, found->text, sizeof found->text, &detail);
        if (rc == 0) {
            reason_set(&found->source, "%s", path);
            return 0;
        }
        if (rc != TFE_ENOENT && unreadable.text[0] == '\0') {
            unreadable = detail;
        }
        add_choice(&names, name);
    }
    if (unreadable.text[0] != '\0') {
        reason_set(reason, "no token in %s; %s", order, unreadable.text);
    } else {
        reason_set(reason,
                   "no token in %s, and no %s in %s (copy that file from the server's machine, "
                   "where tfe-rdzv prints its path at startup, and pass it with --token-file)",
                   order, names.text, directory);
    }
    return TFE_EAUTH;
}

static int find_text(const struct join_config *config, struct found *found,
                     struct tfe_reason *reason)
{
    const struct {
        const char *value;
        const char *source;
        bool is_file;
    } places[] = {
        {from_command_line(config->token, "TFE_TOKEN"), "--token", false},
        {from_command_line(config->token_file, "TFE_TOKEN_FILE"), "--token-file", true},
        {variable("TFE_TOKEN"), "TFE_TOKEN", false},
        {variable("TFE_TOKEN_FILE"), "TFE_TOKEN_FILE", true},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (places[i].value) {
            return read_token(found, places[i].value, places[i].source, places[i].is_file, reason);
        }
    }
    return read_state_dir_token(config, found, reason);
}

static int find_token(const struct join_config *config, struct token *ret,
                      struct tfe_reason *reason)
{
    struct found found;
    int rc = find_text(config, &found, reason);
    if (rc) {
        goto wipe;
    }
    if (token_parse(ret, found.text)) {
        reason_set(reason, "invalid token in %s: expected tfe1_ROLE_ and 112 characters",
                   found.source.text);
        rc = TFE_EAUTH;
        goto wipe;
    }
    const struct tfe_wall expiry = token_expiry(ret->key_id);
    if (!role_will_do(config, ret->role)) {
        struct tfe_reason words = {.text = ""};
        for (unsigned i = 0; i < config->n_roles; i++) {
            add_choice(&words, principal_role_name(config->roles[i]));
        }
        reason_set(reason, "the token from %s has the role %s; the required role is %s",
                   found.source.text, principal_role_name(ret->role), words.text);
        rc = TFE_EAUTH;
    } else if (expiry.ms != 0 && expiry.ms <= clock_wall().ms && !variable(ENROLLMENT_VARIABLE)) {
        char day[32];
        struct text text;
        text_init(&text, day, sizeof day);
        text_add_wall(&text, expiry);
        reason_set(reason,
                   "the token from %s expired at %s (get a new one from the server's operator)",
                   found.source.text, day);
        rc = TFE_EAUTH;
    }
    if (rc) {
        token_done(ret);
    }
wipe:
    explicit_bzero(found.text, sizeof found.text);
    return rc;
}

static int read_endpoint(const char *text, const char *source, struct join_info *ret,
                         struct tfe_reason *reason)
{
    ret->port = JOIN_PORT_DEFAULT;
    if (endpoint_parse(text, ret->host, sizeof ret->host, &ret->port)) {
        const char *colon = strchr(text, ':');
        reason_set(reason, "%s: '%s' is not HOST:PORT%s", source, text,
                   colon && strchr(colon + 1, ':') ? " (write IPv6 as [ADDRESS]:PORT)" : "");
        return TFE_EINVAL;
    }
    return 0;
}

static int find_endpoint(const struct join_config *config, struct join_info *ret,
                         struct tfe_reason *reason)
{
    if (config->endpoint && *config->endpoint != '\0') {
        return read_endpoint(config->endpoint, "--rdzv-endpoint", ret, reason);
    }
    char directory[PATH_MAX];
    char path[PATH_MAX];
    char text[TFE_HOST_MAX + 16];
    struct tfe_reason detail;
    int rc = state_dir_find(config->state_dir, directory, &detail);
    if (rc == 0) {
        rc = state_dir_path(path, directory, STATE_DIR_ENDPOINT, &detail);
    }
    if (rc == 0) {
        rc = state_dir_read(path, text, sizeof text, &detail);
    }
    if (rc == 0) {
        return read_endpoint(text, path, ret, reason);
    }
    /* No readable endpoint file: a server on this machine, if any, then belongs to another user and
     * uses the default port. */
    return read_endpoint(JOIN_HOST_DEFAULT, "default", ret, reason);
}

int join_find(const struct join_config *config, struct join_info *ret, struct tfe_reason *reason)
{
    struct join_info info = {.token = sodium_malloc(sizeof *info.token)};
    int rc = 0;
    if (!info.token) {
        reason_set(reason, "no memory for the token");
        rc = TFE_ENOMEM;
    }
    if (rc == 0) {
        rc = find_endpoint(config, &info, reason);
    }
    if (rc == 0) {
        rc = find_token(config, info.token, reason);
    }
    if (rc == 0) {
        *ret = info;
    } else {
        join_done(&info);
    }
    join_forget(config->token);
    return rc;
}

void join_forget(char *token)
{
    secret_mem_wipe_text(token);
    secret_mem_wipe_variable("TFE_TOKEN");
}

void join_done(struct join_info *info)
{
    sodium_free(info->token);
    info->token = NULL;
}
