/* server/web/web_settings.h: the options of tfe-web, as one struct filled by one table. */
#ifndef TFE_SERVER_WEB_WEB_SETTINGS_H
#define TFE_SERVER_WEB_WEB_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cli/log.h"
#include "common/cli/options.h"
#include "common/credentials/join.h"

/* Texts are borrowed from argv and the environment. */
struct web_settings {
    /* The server, as tfe-ctl finds it. */
    const char *endpoint;
    char *token;
    const char *token_file;
    const char *state_dir;
    /* Where pages and scripts find us. */
    const char *bind;
    uint32_t port;
    const char *tls_cert, *tls_key; /* NULL: no TLS */
    bool insecure_http;
    const char *user; /* NULL: rights_find decides */
    bool no_sandbox;
    uint32_t max_connections;
    enum log_level log_level;
    enum log_format log_format;
};

extern const struct option_table web_settings_table;

/* TFE_EINVAL: why is one sentence. */
int web_settings_parse(int argc, char **argv, struct web_settings *ret,
                       enum options_result *ret_result, struct tfe_reason *reason) TFE_MUST_CHECK;

/* The server and our own token, as join_find does; again only where the token is_lasting. */
int web_settings_find(const struct web_settings *settings, struct join_info *ret,
                      struct tfe_reason *reason) TFE_MUST_CHECK;

/* Whether where the token came from can be read again: no text of argv or the environment, no pipe
 * or terminal, which would have us wait for a second one. */
bool web_settings_is_lasting(const struct web_settings *settings);

/* Whether only this machine can reach the address. */
bool web_settings_is_local(const struct web_settings *settings);

#endif
