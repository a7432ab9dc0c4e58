/* common/channel/join.h: how agent and ctl find the server's endpoint and their token (design 9's
 * order). */
#ifndef TFE_COMMON_CHANNEL_JOIN_H
#define TFE_COMMON_CHANNEL_JOIN_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/reason.h"
#include "common/channel/token.h"

struct join_wish {
    const char *endpoint;   /* --rdzv-endpoint, or NULL */
    char *token;            /* --token, or NULL; in argv or the environment */
    const char *token_file; /* --token-file, or NULL */
    const char *state_dir;  /* --state-dir, or NULL */
    /* Roles that will do, best first; their files are looked for in the state directory. */
    enum principal_role roles[3];
    unsigned n_roles;
};

struct join_info {
    char host[TFE_HOST_MAX + 1];
    uint16_t port;       /* default 5556 */
    struct token *token; /* in sodium_malloc memory: guarded, in no dump, wiped when it is freed */
};

/* Order for the token: --token, --token-file, $TFE_TOKEN, $TFE_TOKEN_FILE, state directory; for the
 * endpoint: --rdzv-endpoint (also from $TFE_RDZV_ENDPOINT, by the option table), the state
 * directory's endpoint file, else localhost:5556. TFE_EINVAL: the endpoint is malformed (exit 2).
 * TFE_EAUTH: no token found, not a token, of a role that will not do, or expired by this machine's
 * clock (exit 77), unless the environment has a key of the agent's own, too. why is one sentence
 * that says what to do. After sodium_init. Whatever comes of it, the token's text is gone from argv
 * and the environment afterwards (join_forget), so where it came from there is one such call in a
 * process. The caller ends what was found with join_done. */
int join_find(const struct join_wish *wish, struct join_info *ret,
              struct tfe_reason *reason) TFE_MUST_CHECK;

/* Overwrites the token's text (that of --token, or NULL) where argv or the environment holds it,
 * and takes TFE_TOKEN away from what this process starts. */
void join_forget(char *token);

/* A zeroed one is allowed. */
void join_done(struct join_info *info);

#endif
