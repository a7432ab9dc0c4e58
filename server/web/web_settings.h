/* server/web/web_settings.h: options of tfe-web. */
#ifndef TFE_SERVER_WEB_WEB_SETTINGS_H
#define TFE_SERVER_WEB_WEB_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cli/log.h"
#include "common/cli/options.h"
#include "common/credentials/join.h"

/* Strings are borrowed from argv and the environment. */
struct web_settings {
    /* How to find the server, as in tfe-ctl. */
    const char *endpoint;
    char *token;
    const char *token_file;
    const char *state_dir;
    /* Where tfe-web listens. */
    const char *bind;
    uint32_t port;
    const char *tls_cert, *tls_key; /* NULL without TLS */
    bool insecure_http;
    const char *user; /* NULL for the default of privileges_find */
    bool no_sandbox;
    uint32_t max_connections;
    enum log_level log_level;
    enum log_format log_format;
};

extern const struct option_table web_settings_table;

/* TFE_EINVAL with a reason. */
int web_settings_parse(int argc, char **argv, struct web_settings *ret,
                       enum options_result *ret_result, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Finds the server and tfe-web's own token, as join_find does. Call it again only if
 * web_settings_is_lasting. */
int web_settings_find(const struct web_settings *settings, struct join_info *ret,
                      struct tfe_reason *reason) TFE_MUST_CHECK;

/* Returns true if the source of the token can be read again. The command line, the environment,
 * pipes and terminals cannot. */
bool web_settings_is_lasting(const struct web_settings *settings);

/* Returns true if only this machine can reach the listening address. */
bool web_settings_is_local(const struct web_settings *settings);

#endif
