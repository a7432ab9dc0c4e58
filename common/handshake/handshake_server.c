/* common/handshake/handshake_server.c: the server's side of preamble and handshake. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/handshake/handshake.h"
#include "common/handshake/handshake_layout.h"
#include "common/handshake/replay.h"
#include "common/message/bytes.h"

_Static_assert(REPLAY_MAC_BYTES == HANDSHAKE_MAC1_BYTES, "replay");

/* Secrets in sodium_malloc memory, read-only except while the ring is replaced. */
struct handshake_secrets {
    uint8_t static_secret[NOISE_DH_BYTES];
    uint8_t public_key[NOISE_DH_BYTES];
    struct token_ring ring;
};

struct handshake_server {
    struct handshake_secrets *secrets;
    struct replay *replay;
    handshake_judge_fn judge;
    void *judge_ctx;
    uint8_t hint[TOKEN_HINT_BYTES];
    char scope[MSG_SCOPE_MAX + 1]; /* scope of the client that was answered last */
};

int handshake_server_new(const uint8_t static_secret_key[32], const uint8_t root[TOKEN_ROOT_BYTES],
                         struct handshake_server **ret)
{
    if (sodium_init() < 0) {
        return TFE_ESYS;
    }
    struct handshake_server *server = calloc(1, sizeof(*server));
    if (!server) {
        return TFE_ENOMEM;
    }
    server->secrets = sodium_malloc(sizeof(*server->secrets));
    server->replay = replay_new();
    if (!server->secrets || !server->replay) {
        handshake_server_free(server);
        return TFE_ENOMEM;
    }
    struct handshake_secrets *secrets = server->secrets;
    memcpy(secrets->static_secret, static_secret_key, NOISE_DH_BYTES);
    (void)crypto_scalarmult_base(secrets->public_key, static_secret_key);
    secrets->ring = (struct token_ring){.n = 1};
    memcpy(secrets->ring.v[0].root, root, TOKEN_ROOT_BYTES);
    (void)sodium_mprotect_readonly(secrets);
    token_hint(secrets->public_key, server->hint);
    *ret = server;
    return 0;
}

void handshake_server_free(struct handshake_server *server)
{
    if (server) {
        sodium_free(server->secrets); /* wipes before freeing */
        replay_free(server->replay);
        free(server);
    }
}

void handshake_server_set_ring(struct handshake_server *server, const struct token_ring *ring)
{
    (void)sodium_mprotect_readwrite(server->secrets);
    server->secrets->ring = *ring;
    (void)sodium_mprotect_readonly(server->secrets);
}

void handshake_server_set_judge(struct handshake_server *server, handshake_judge_fn judge,
                                void *ctx)
{
    server->judge = judge;
    server->judge_ctx = ctx;
}

void handshake_server_mint(const struct handshake_server *server, const struct token_config *config,
                           struct token *ret)
{
    const struct token_ring *ring = &server->secrets->ring;
    const struct token_root *root = &ring->v[ring->used];
    struct token_config now = *config;
    now.generation = root->generation;
    token_mint(ret, &now, root->root, server->secrets->public_key);
}

void handshake_server_issue_key(const struct handshake_server *server, const uint8_t public_key[32],
                                struct tfe_wall expires, struct principal *by, struct token *ret,
                                struct certificate *ret_certificate)
{
    const struct token_ring *ring = &server->secrets->ring;
    const struct token_root *root = &ring->v[ring->used];
    const uint8_t *renews = by->kind == PRINCIPAL_BY_NODE_KEY ? by->key_id : NULL;
    const struct token_config config = {
        .role = PRINCIPAL_AGENT, .is_node_key = true, .renews = renews, .expires = expires};
    handshake_server_mint(server, &config, ret);
    certificate_make(ret->key_id, public_key, by, root->root, ret_certificate);
    memcpy(by->key_id, ret->key_id, sizeof(by->key_id));
    by->kind = PRINCIPAL_BY_NODE_KEY;
    by->is_stored = false;
    by->generation = root->generation;
    by->expires = token_expiry(ret->key_id);
}

static int judge(const struct handshake_server *server, struct tfe_wall now, struct principal *by)
{
    if (principal_has_expired(by, now)) {
        return TFE_EAUTH;
    }
    if (!server->judge) {
        return by->is_stored ? TFE_EAUTH : 0;
    }
    return server->judge(server->judge_ctx, now, by) ? TFE_EAUTH : 0;
}

/* Determines the length of the first message. Rejects an invalid prefix at once instead of waiting
 * for a timeout, for example the first byte of a port scanner or browser. */
static int frame_request(const uint8_t *in, size_t n, size_t *ret_message_n)
{
    size_t magic_n = n < HANDSHAKE_MAGIC_BYTES ? n : HANDSHAKE_MAGIC_BYTES;
    if (magic_n && memcmp(in, HANDSHAKE_MAGIC, magic_n) != 0) {
        return TFE_EPROTO;
    }
    if ((n > HANDSHAKE_OFFSET_VERSION &&
         in[HANDSHAKE_OFFSET_VERSION] != HANDSHAKE_PREAMBLE_VERSION) ||
        (n > HANDSHAKE_OFFSET_FLAGS && in[HANDSHAKE_OFFSET_FLAGS] > HANDSHAKE_NODE_KEY)) {
        return TFE_EPROTO;
    }
    if (n < HANDSHAKE_CLEAR_BYTES) {
        return TFE_EMORE;
    }
    size_t message_n = be16_get(in + HANDSHAKE_OFFSET_LENGTH);
    if (message_n < HANDSHAKE_NOISE_MIN || message_n > HANDSHAKE_NOISE1_MAX) {
        return TFE_EPROTO;
    }
    if (n - HANDSHAKE_CLEAR_BYTES < message_n + HANDSHAKE_MAC1_BYTES) {
        return TFE_EMORE;
    }
    *ret_message_n = message_n;
    return 0;
}

/* Authenticates the client with keyed hashes only. signed_n is the number of bytes before mac1. */
static int authenticate(struct handshake_server *server, struct tfe_wall now, const uint8_t *in,
                        size_t signed_n, struct handshake_keys *ret_keys, struct principal *ret_by)
{
    if (memcmp(in + HANDSHAKE_OFFSET_HINT, server->hint, TOKEN_HINT_BYTES) != 0) {
        return TFE_EAUTH;
    }
    const uint8_t *key_id = in + HANDSHAKE_OFFSET_KEY_ID;
    uint8_t secret[TOKEN_SECRET_BYTES];
    const uint8_t *root = token_root_of(&server->secrets->ring, token_generation(key_id));
    if (token_is_node_key(key_id) != (in[HANDSHAKE_OFFSET_FLAGS] == HANDSHAKE_NODE_KEY)) {
        return TFE_EAUTH;
    }
    int rc = root ? token_derive(key_id, root, secret, ret_by) : TFE_EAUTH;
    if (rc) {
        return rc;
    }
    handshake_keys_derive(secret, ret_keys);
    sodium_memzero(secret, sizeof(secret));

    uint8_t mac1[HANDSHAKE_MAC1_BYTES];
    handshake_mac1(ret_keys, in, signed_n, mac1);
    if (sodium_memcmp(mac1, in + signed_n, sizeof(mac1)) != 0) {
        return TFE_EAUTH;
    }
    /* The key id is authentic only after the check of mac1, so the judge is asked here. */
    return judge(server, now, ret_by);
}

int handshake_server_check_mac1(struct handshake_server *server, struct tfe_wall now,
                                const uint8_t *in, size_t n)
{
    size_t message_n;
    struct handshake_keys keys = {0};
    struct principal by;
    int rc = frame_request(in, n, &message_n);
    if (rc == 0) {
        rc = authenticate(server, now, in, HANDSHAKE_CLEAR_BYTES + message_n, &keys, &by);
        sodium_memzero(&keys, sizeof(keys));
    }
    return rc;
}

/* Computes the range of versions that both sides support. */
static int agree(const struct handshake_params *a, const struct handshake_params *b,
                 uint32_t *ret_min, uint32_t *ret_max)
{
    uint32_t min = a->version_min > b->version_min ? a->version_min : b->version_min;
    uint32_t max = a->version_max < b->version_max ? a->version_max : b->version_max;
    if (min > max) {
        return TFE_EPROTO;
    }
    *ret_min = min;
    *ret_max = max;
    return 0;
}

/* Performs the curve operations: reads message 1, writes length and message 2, derives the session
 * keys. */
static int exchange_keys(struct handshake_server *server, struct noise_handshake *hs,
                         const struct handshake_params *params, const uint8_t *message,
                         size_t message_n, uint8_t ret_response[HANDSHAKE_RESPONSE_MAX],
                         size_t *ret_response_n, struct seal_session *ret_session,
                         struct principal *by, struct handshake_params *ret_client)
{
    uint8_t payload[HANDSHAKE_REQUEST_MAX];
    size_t n;
    int rc = noise_read(hs, message, message_n, payload, sizeof(payload), &n);
    if (rc) {
        return rc;
    }
    struct handshake_params client;
    rc = handshake_params_get(payload, n, &client);
    if (rc) {
        return rc;
    }
    if (by->kind == PRINCIPAL_BY_NODE_KEY) {
        rc = certificate_read(payload + HANDSHAKE_PARAMS_BYTES, n - HANDSHAKE_PARAMS_BYTES, hs->rs,
                              token_root_of(&server->secrets->ring, by->generation), server->scope,
                              by);
        if (rc) {
            return rc;
        }
    }
    rc = agree(params, &client, &client.version_min, &client.version_max);
    if (rc) {
        return rc;
    }
    struct handshake_params answer = {.version_min = client.version_min,
                                      .version_max = client.version_max,
                                      .boot_nonce = params->boot_nonce};
    handshake_params_put(&answer, payload);
    rc = noise_write(hs, payload, HANDSHAKE_PARAMS_BYTES, ret_response + HANDSHAKE_LENGTH_BYTES,
                     HANDSHAKE_NOISE2_MAX, &n);
    if (rc) {
        return rc;
    }
    rc = noise_split(hs, ret_session);
    if (rc) {
        return rc;
    }
    be16_put(ret_response, (uint16_t)n);
    *ret_response_n = HANDSHAKE_LENGTH_BYTES + n;
    *ret_client = client;
    return 0;
}

int handshake_server_answer(struct handshake_server *server, struct tfe_wall now,
                            const struct handshake_params *params, const uint8_t *in, size_t n,
                            size_t *ret_used, uint8_t ret_response[HANDSHAKE_RESPONSE_MAX],
                            size_t *ret_response_n, struct seal_session *ret_session,
                            struct principal *ret_by, struct handshake_params *ret_client)
{
    size_t message_n;
    int rc = frame_request(in, n, &message_n);
    if (rc) {
        return rc;
    }
    size_t signed_n = HANDSHAKE_CLEAR_BYTES + message_n;
    struct handshake_keys keys = {0};
    struct noise_handshake hs = {0};
    struct principal by;
    rc = authenticate(server, now, in, signed_n, &keys, &by);
    if (rc == 0 && replay_is_seen(server->replay, in + signed_n)) {
        rc = TFE_EAUTH;
    }
    if (rc) {
        goto out;
    }
    rc = handshake_noise_init(&hs, &keys, server->secrets->static_secret,
                              server->secrets->public_key, NULL, in);
    if (rc) {
        goto out;
    }
    rc = exchange_keys(server, &hs, params, in + HANDSHAKE_CLEAR_BYTES, message_n, ret_response,
                       ret_response_n, ret_session, &by, ret_client);
    if (rc) {
        goto out;
    }
    *ret_by = by;
    *ret_used = signed_n + HANDSHAKE_MAC1_BYTES;

out:
    sodium_memzero(&keys, sizeof(keys));
    noise_done(&hs);
    return rc;
}
