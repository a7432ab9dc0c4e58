/* common/credentials/join.h: finds the server's endpoint and the token for agent and tfe-ctl
 * (order: design 9). */
#ifndef TFE_COMMON_CREDENTIALS_JOIN_H
#define TFE_COMMON_CREDENTIALS_JOIN_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/handshake/token.h"
#include "common/text/reason.h"

struct join_config {
    const char *endpoint;   /* value of --rdzv-endpoint, or NULL */
    char *token;            /* value of --token, or NULL; points into argv or the environment */
    const char *token_file; /* value of --token-file, or NULL */
    const char *state_dir;  /* value of --state-dir, or NULL */
    /* Acceptable roles, preferred first; their token files are looked up in the state directory. */
    enum principal_role roles[3];
    unsigned n_roles;
};

struct join_info {
    char host[TFE_HOST_MAX + 1];
    uint16_t port;       /* port, 5556 by default */
    struct token *token; /* token, in sodium_malloc memory: guarded, excluded from core dumps, wiped
                            when freed */
};

/* Finds endpoint and token. Order for the token: --token, --token-file, $TFE_TOKEN,
 * $TFE_TOKEN_FILE, state directory. Order for the endpoint: --rdzv-endpoint (or $TFE_RDZV_ENDPOINT,
 * by the option table), the endpoint file of the state directory, localhost:5556. Returns
 * TFE_EINVAL for a malformed endpoint (exit 2), TFE_EAUTH if there is no token or it is malformed,
 * of an unacceptable role, or expired by the local clock (exit 77), unless the environment holds an
 * agent's own key. reason is one sentence that says what to do. Precondition: sodium_init. In all
 * cases erases the token's text from argv and environment (join_forget), so call once per process.
 * Free the result with join_done. */
int join_find(const struct join_config *config, struct join_info *ret,
              struct tfe_reason *reason) TFE_MUST_CHECK;

/* Overwrites the token's text (that of --token, or NULL) in argv and the environment, and removes
 * TFE_TOKEN from the environment of child processes. */
void join_forget(char *token);

/* Frees the result of join_find. A zeroed one is allowed. */
void join_done(struct join_info *info);

#endif
