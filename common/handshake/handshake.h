/* common/handshake/handshake.h: preamble and handshake of both sides, as functions on byte buffers
 * without sockets. */
#ifndef TFE_COMMON_HANDSHAKE_HANDSHAKE_H
#define TFE_COMMON_HANDSHAKE_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/handshake/certificate.h"
#include "common/handshake/seal.h"
#include "common/handshake/token.h"

/* Largest first message of each side (PROTOCOL.md), within the 512 bytes that design 3.2 allows
 * before authentication. */
#define HANDSHAKE_REQUEST_MAX 512
#define HANDSHAKE_RESPONSE_MAX 512

/* Version of the messages after the handshake that this source implements (PROTOCOL.md). */
#define PROTOCOL_VERSION 2

/* What each side reports about itself in the handshake. As an argument: the caller's own range of
 * versions. As a result: the range that both sides support, never empty; both then use its
 * version_max. */
struct handshake_params {
    uint32_t version_min; /* lowest supported version of the messages after the handshake */
    uint32_t version_max;
    uint64_t boot_nonce; /* random number per process */
};

/* A client between its two handshake messages. */
struct handshake_client;

/* Writes the first message. The caller frees *ret_client with handshake_client_free, also after
 * handshake_client_finish. Returns TFE_ENOMEM, TFE_EINVAL (empty range of versions), TFE_EPROTO
 * (invalid server key) or TFE_ESYS (libsodium fails to initialise). */
int handshake_client_start(const struct token *token, const struct handshake_params *params,
                           uint8_t ret_request[HANDSHAKE_REQUEST_MAX], size_t *ret_request_n,
                           struct handshake_client **ret_client) TFE_MUST_CHECK;

/* Processes the server's answer at the start of in. On success sets *ret_used to the bytes read and
 * *ret_session to the keys. Returns TFE_EMORE without consuming anything if the answer is
 * incomplete; TFE_EPROTO or TFE_EAUTH if the connection must be closed. The client is wiped on
 * success and on these two errors; later calls return TFE_ESTATE. */
int handshake_client_finish(struct handshake_client *client, const uint8_t *in, size_t n,
                            size_t *ret_used, struct seal_session *ret_session,
                            struct handshake_params *ret_server) TFE_MUST_CHECK;

/* Wipes and frees the client. NULL is allowed. */
void handshake_client_free(struct handshake_client *client);

/* The server's secrets, in sodium_malloc memory. */
struct handshake_server;

/* Copies the secrets; root has generation 0. Returns TFE_ENOMEM, or TFE_ESYS if libsodium fails to
 * initialise. */
int handshake_server_new(const uint8_t static_secret_key[32], const uint8_t root[TOKEN_ROOT_BYTES],
                         struct handshake_server **ret) TFE_MUST_CHECK;
void handshake_server_free(struct handshake_server *server);

/* Returns 0 if a complete first message with a valid mac1 is at the start of in.
 * handshake_server_answer may still reject it as a replay. Costs keyed hashes only. Returns errors
 * as handshake_server_answer. */
int handshake_server_check_mac1(struct handshake_server *server, struct tfe_wall now,
                                const uint8_t *in, size_t n) TFE_MUST_CHECK;
/* Replaces the set of root keys whose tokens are accepted; copies it. */
void handshake_server_set_ring(struct handshake_server *server, const struct token_ring *ring);

/* Decides about a client with a valid token: sets the scope and returns 0, or returns another value
 * to reject it. NULL, the default, admits every valid token except stored ones. */
typedef int (*handshake_judge_fn)(void *ctx, struct tfe_wall now, struct principal *by);
void handshake_server_set_judge(struct handshake_server *server, handshake_judge_fn judge,
                                void *ctx);

/* Makes a token with the current root key, whose generation overrides that in config. */
void handshake_server_mint(const struct handshake_server *server, const struct token_config *config,
                           struct token *ret);

/* Issues an agent's own key with the rights of *by, which is updated to the new key. If *by already
 * uses such a key, both compare equal (token_compare). *ret is like a token; only the agent knows
 * the secret of public_key. */
void handshake_server_issue_key(const struct handshake_server *server, const uint8_t public_key[32],
                                struct tfe_wall expires, struct principal *by, struct token *ret,
                                struct certificate *ret_certificate);

/* Answers a client's first message at the start of in. Checks in an order that costs outsiders only
 * keyed hashes: length, magic, hint, token, mac1, replay cache, then curve operations. On success
 * sets the response, *ret_used to the bytes read, and *ret_by to the client's identity, whose scope
 * is valid until the next call. Returns TFE_EMORE without consuming anything; TFE_EPROTO for
 * another protocol or version; TFE_EAUTH for a token that is wrong, expired at `now`, rejected by
 * the judge, or replayed. After TFE_EPROTO and TFE_EAUTH close without sending a byte. */
int handshake_server_answer(struct handshake_server *server, struct tfe_wall now,
                            const struct handshake_params *params, const uint8_t *in, size_t n,
                            size_t *ret_used, uint8_t ret_response[HANDSHAKE_RESPONSE_MAX],
                            size_t *ret_response_n, struct seal_session *ret_session,
                            struct principal *ret_by,
                            struct handshake_params *ret_client) TFE_MUST_CHECK;

#endif
