/* common/channel/handshake.h: preamble and handshake, bytes in and bytes out, for both sides. No
 * sockets.
 */
#ifndef TFE_COMMON_CHANNEL_HANDSHAKE_H
#define TFE_COMMON_CHANNEL_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/channel/certificate.h"
#include "common/channel/seal.h"
#include "common/channel/token.h"

/* Largest first flight of each side, PROTOCOL.md. Both are far below the 512 B that design 3.2
 * allows before authentication. */
#define HELLO_REQUEST_MAX 512
#define HELLO_RESPONSE_MAX 512

/* What programs of this tree speak after the handshake: the version that PROTOCOL.md describes. */
#define PROTOCOL_VERSION 2

/* What each side tells of itself inside the handshake. As an argument the caller's own range of
 * versions; as a result (ret_client, ret_server) the range that both speak, never empty: both sides
 * then speak its version_max. */
struct hello_facts {
    uint32_t version_min; /* of the protocol after the handshake */
    uint32_t version_max;
    uint64_t boot_nonce; /* random per process */
};

/* A client between its two flights. Private, but a value so that it lives in the caller's struct.
 */
struct hello_client;

/* Makes the first flight. The caller keeps *ret_client and frees it with hello_client_free, also
 * after success of hello_client_finish. TFE_ENOMEM; TFE_EINVAL: facts name an empty range of
 * versions; TFE_EPROTO: the server's key is no valid point; TFE_ESYS: libsodium does not start. */
int hello_client_start(const struct token *token, const struct hello_facts *facts,
                       uint8_t ret_request[HELLO_REQUEST_MAX], size_t *ret_request_n,
                       struct hello_client **ret_client) TFE_MUST_CHECK;

/* Reads the server's answer from the front of in. TFE_EMORE: nothing consumed, come again with
 * more. TFE_EPROTO, TFE_EAUTH: end the connection; the client is wiped, and TFE_ESTATE is what it
 * says from then on, as after success. On success *ret_used bytes were read and *ret_session holds
 * the keys. */
int hello_client_finish(struct hello_client *client, const uint8_t *in, size_t n, size_t *ret_used,
                        struct seal_session *ret_session,
                        struct hello_facts *ret_server) TFE_MUST_CHECK;

/* Wipes and frees. NULL is allowed. */
void hello_client_free(struct hello_client *client);

/* The server's secrets. In sodium_malloc memory. */
struct hello_server;

/* Copies the secrets; root is of generation 0. TFE_ENOMEM; TFE_ESYS: libsodium does not start. */
int hello_server_new(const uint8_t static_secret_key[32], const uint8_t root[TOKEN_ROOT_BYTES],
                     struct hello_server **ret) TFE_MUST_CHECK;
void hello_server_free(struct hello_server *server);

/* Whether a whole first flight of somebody with a token is at the front of in: its answer may still
 * be TFE_EAUTH, for it may have been here before. Costs keyed hashes. Errors as of
 * hello_server_answer. */
int hello_server_knock(struct hello_server *server, struct tfe_wall now, const uint8_t *in,
                       size_t n) TFE_MUST_CHECK;
/* Takes tokens of these roots, and of no others, from now on; copied. */
void hello_server_set_ring(struct hello_server *server, const struct token_ring *ring);

/* Says more of a client whose token has proved itself: fills in the scope, or refuses it with
 * anything but 0. NULL, as at first: all that is proved may come in, but for kept tokens. */
typedef int (*hello_judge_fn)(void *ctx, struct tfe_wall now, struct principal *by);
void hello_server_set_judge(struct hello_server *server, hello_judge_fn judge, void *ctx);

/* Makes a token with the root that is used; its generation is not the caller's to wish. */
void hello_server_mint(const struct hello_server *server, const struct token_wish *wish,
                       struct token *ret);

/* Makes an agent's own key of the root that is used, as good as *by, who asks for it and becomes
 * who speaks with it; where that is an own key already, they are one (token_compare). *ret is what
 * a token has; the secret of public_key only its holder knows. */
void hello_server_enrol(const struct hello_server *server, const uint8_t public_key[32],
                        struct tfe_wall expires, struct principal *by, struct token *ret,
                        struct certificate *ret_certificate);

/* Answers a client's first flight at the front of in. In this order, so that an outsider costs
 * keyed hashes only: length, magic, hint, token, mac1, replay cache, then the curve operations.
 * TFE_EMORE: nothing consumed. TFE_EPROTO: not this protocol, or a version not spoken here.
 * TFE_EAUTH: wrong token, expired token (now is the civil time), one that the judge refuses,
 * replay. In both cases: close without a byte. On success the answer is in ret_response, *ret_used
 * bytes of in were read, and *ret_by is who asked; its scope lives until the server is asked again.
 */
int hello_server_answer(struct hello_server *server, struct tfe_wall now,
                        const struct hello_facts *facts, const uint8_t *in, size_t n,
                        size_t *ret_used, uint8_t ret_response[HELLO_RESPONSE_MAX],
                        size_t *ret_response_n, struct seal_session *ret_session,
                        struct principal *ret_by, struct hello_facts *ret_client) TFE_MUST_CHECK;

#endif
