/* common/net/join.c: endpoint and token, in DESIGN 9's order. */
#include "common/net/join.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/net/clock.h"
#include "common/net/options.h"
#include "common/net/state_dir.h"

#define JOIN_PORT_DEFAULT 5556
#define JOIN_HOST_DEFAULT "localhost"

/* A token's text as it is collected, with the words for where it came from. */
struct found {
    char text[TOKEN_TEXT_MAX + 64]; /* room for the white space around it that token_parse allows */
    struct tfe_why source;
};

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && *value != '\0' ? value : NULL;
}

/* The value of an option. Option tables also read the environment, which stands behind the other
 * option here: a value that is the environment's own string did not come from the command line. */
static const char *from_command_line(const char *value, const char *name)
{
    return value && *value != '\0' && value != getenv(name) ? value : NULL;
}

static int take_text(struct found *found, const char *text, const char *source, struct tfe_why *why)
{
    const size_t n = strlen(text);
    if (n >= sizeof found->text) {
        why_set(why, "what %s holds is no token: it is too long", source);
        return TFE_EAUTH;
    }
    memcpy(found->text, text, n + 1);
    why_set(&found->source, "%s", source);
    return 0;
}

static int take_file(struct found *found, const char *path, const char *source, struct tfe_why *why)
{
    int rc = state_dir_read(path, found->text, sizeof found->text, why);
    if (rc) {
        why_prefix(why, "token from %s", source);
        return TFE_EAUTH;
    }
    why_set(&found->source, "%s (%s)", source, path);
    return 0;
}

static bool role_will_do(const struct join_wish *wish, enum token_role role)
{
    for (unsigned i = 0; i < wish->n_roles; i++) {
        if (wish->roles[i] == role) {
            return true;
        }
    }
    return false;
}

static int path_in(const char *directory, const char *name, char ret[PATH_MAX])
{
    const int n = snprintf(ret, PATH_MAX, "%s/%s", directory, name);
    return n < 0 || n >= PATH_MAX ? TFE_ETOOBIG : 0;
}

/* Looks for the roles' files. Nothing there: says where it looked, everywhere, and how to get one.
 */
static int take_from_state_dir(const struct join_wish *wish, struct found *found,
                               struct tfe_why *why)
{
    static const char order[] = "--token, --token-file, TFE_TOKEN, TFE_TOKEN_FILE";
    char directory[PATH_MAX];
    if (state_dir_find(wish->state_dir, directory, why)) {
        why_prefix(why, "no token: none in %s", order);
        return TFE_EAUTH;
    }
    struct tfe_why unreadable = {.text = ""};
    struct tfe_why names = {.text = ""};
    for (unsigned i = 0; i < wish->n_roles; i++) {
        const char *name = state_dir_token_name(wish->roles[i]);
        char path[PATH_MAX];
        if (path_in(directory, name, path)) {
            continue;
        }
        struct tfe_why reason;
        int rc = state_dir_read(path, found->text, sizeof found->text, &reason);
        if (rc == 0) {
            why_set(&found->source, "%s", path);
            return 0;
        }
        if (rc != TFE_ENOENT && unreadable.text[0] == '\0') {
            unreadable = reason;
        }
        struct tfe_why before = names;
        why_set(&names, "%s%s%s", before.text, i > 0 ? " or " : "", name);
    }
    if (unreadable.text[0] != '\0') {
        why_set(why, "no token: none in %s, and %s", order, unreadable.text);
    } else {
        why_set(why,
                "no token: none in %s, and no %s in %s; copy that file from the server's machine "
                "(tfe-rdzv names it when it starts) and give it with --token-file",
                order, names.text, directory);
    }
    return TFE_EAUTH;
}

static int find_text(const struct join_wish *wish, struct found *found, struct tfe_why *why)
{
    const char *value = from_command_line(wish->token, "TFE_TOKEN");
    if (value) {
        return take_text(found, value, "--token", why);
    }
    value = from_command_line(wish->token_file, "TFE_TOKEN_FILE");
    if (value) {
        return take_file(found, value, "--token-file", why);
    }
    value = variable("TFE_TOKEN");
    if (value) {
        return take_text(found, value, "TFE_TOKEN", why);
    }
    value = variable("TFE_TOKEN_FILE");
    if (value) {
        return take_file(found, value, "TFE_TOKEN_FILE", why);
    }
    return take_from_state_dir(wish, found, why);
}

static void format_day(struct tfe_wall when, char ret[32])
{
    const time_t seconds = (time_t)(when.ms / 1000);
    struct tm utc;
    if (!gmtime_r(&seconds, &utc) || strftime(ret, 32, "%Y-%m-%d %H:%M UTC", &utc) == 0) {
        ret[0] = '\0';
    }
}

/* Roles that will do: "agent", "admin or observer". */
static void role_words(const struct join_wish *wish, struct tfe_why *ret)
{
    ret->text[0] = '\0';
    for (unsigned i = 0; i < wish->n_roles; i++) {
        struct tfe_why before = *ret;
        why_set(ret, "%s%s%s", before.text, i > 0 ? " or " : "", token_role_name(wish->roles[i]));
    }
}

static int find_token(const struct join_wish *wish, struct token *ret, struct tfe_why *why)
{
    struct found found;
    int rc = find_text(wish, &found, why);
    if (rc) {
        goto wipe;
    }
    if (token_parse(ret, found.text)) {
        why_set(why, "what %s holds is no token (it reads tfe1_ROLE_ and 112 characters)",
                found.source.text);
        rc = TFE_EAUTH;
        goto wipe;
    }
    const struct tfe_wall expiry = token_expiry(ret->key_id);
    if (!role_will_do(wish, ret->role)) {
        struct tfe_why words;
        role_words(wish, &words);
        why_set(why, "the token from %s is for the role %s; this needs %s", found.source.text,
                token_role_name(ret->role), words.text);
        rc = TFE_EAUTH;
    } else if (expiry.ms != 0 && expiry.ms <= clock_wall().ms) {
        char day[32];
        format_day(expiry, day);
        why_set(why, "the token from %s expired at %s; get a new one from the server's operator",
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
                         struct tfe_why *why)
{
    ret->port = JOIN_PORT_DEFAULT;
    if (options_endpoint(text, ret->host, sizeof ret->host, &ret->port)) {
        why_set(why, "%s: '%s' is not HOST:PORT", source, text);
        return TFE_EINVAL;
    }
    return 0;
}

static int find_endpoint(const struct join_wish *wish, struct join_info *ret, struct tfe_why *why)
{
    if (wish->endpoint && *wish->endpoint != '\0') {
        return read_endpoint(wish->endpoint, "--rdzv-endpoint", ret, why);
    }
    char directory[PATH_MAX];
    char path[PATH_MAX];
    char text[TFE_HOST_MAX + 16];
    struct tfe_why reason;
    int rc = state_dir_find(wish->state_dir, directory, &reason);
    if (rc == 0) {
        rc = path_in(directory, STATE_DIR_ENDPOINT, path);
    }
    if (rc == 0) {
        rc = state_dir_read(path, text, sizeof text, &reason);
    }
    if (rc == 0) {
        return read_endpoint(text, path, ret, why);
    }
    /* No file, or none that this user may read: then the server, if there is one here, is another
     * user's, and listens on the default port. */
    return read_endpoint(JOIN_HOST_DEFAULT, "default", ret, why);
}

int join_find(const struct join_wish *wish, struct join_info *ret, struct tfe_why *why)
{
    struct join_info info;
    int rc = find_endpoint(wish, &info, why);
    if (rc == 0) {
        rc = find_token(wish, &info.token, why);
    }
    if (rc == 0) {
        *ret = info;
    }
    explicit_bzero(&info.token, sizeof info.token);
    return rc;
}
