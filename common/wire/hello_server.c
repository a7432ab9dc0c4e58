/* common/wire/hello_server.c: the server's side of preamble and handshake. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/bytes.h"
#include "common/wire/hello.h"
#include "common/wire/hello_layout.h"
#include "common/wire/replay.h"

_Static_assert(REPLAY_MAC_BYTES == HELLO_MAC1_BYTES, "replay");

/* In sodium_malloc memory, read-only after hello_server_new. */
struct hello_secrets {
    uint8_t static_secret[NOISE_DH_BYTES];
    uint8_t root[TOKEN_ROOT_BYTES];
};

struct hello_server {
    struct hello_secrets *secrets;
    struct replay *replay;
    uint8_t hint[TOKEN_HINT_BYTES];
};

int hello_server_new(const uint8_t static_secret_key[32], const uint8_t root[TOKEN_ROOT_BYTES],
                     struct hello_server **ret)
{
    if (sodium_init() < 0) {
        return TFE_ESYS;
    }
    struct hello_server *server = calloc(1, sizeof(*server));
    if (!server) {
        return TFE_ENOMEM;
    }
    server->secrets = sodium_malloc(sizeof(*server->secrets));
    server->replay = replay_new();
    if (!server->secrets || !server->replay) {
        hello_server_free(server);
        return TFE_ENOMEM;
    }
    memcpy(server->secrets->static_secret, static_secret_key, NOISE_DH_BYTES);
    memcpy(server->secrets->root, root, TOKEN_ROOT_BYTES);
    (void)sodium_mprotect_readonly(server->secrets);

    uint8_t public_key[NOISE_DH_BYTES];
    (void)crypto_scalarmult_base(public_key, static_secret_key);
    token_hint(public_key, server->hint);
    *ret = server;
    return 0;
}

void hello_server_free(struct hello_server *server)
{
    if (server) {
        sodium_free(server->secrets); /* wipes */
        replay_free(server->replay);
        free(server);
    }
}

/* How long the first flight is. What is wrong already is refused now, not after a time-out: a port
 * scanner's or a browser's first byte says enough. */
static int frame_request(const uint8_t *in, size_t n, size_t *ret_message_n)
{
    size_t magic_n = n < HELLO_MAGIC_BYTES ? n : HELLO_MAGIC_BYTES;
    if (magic_n && memcmp(in, HELLO_MAGIC, magic_n) != 0) {
        return TFE_EPROTO;
    }
    if ((n > HELLO_AT_VERSION && in[HELLO_AT_VERSION] != HELLO_PREAMBLE_VERSION) ||
        (n > HELLO_AT_FLAGS && in[HELLO_AT_FLAGS] != 0)) {
        return TFE_EPROTO;
    }
    if (n < HELLO_CLEAR_BYTES) {
        return TFE_EMORE;
    }
    size_t message_n = be16_get(in + HELLO_AT_LENGTH);
    if (message_n < HELLO_NOISE_MIN || message_n > HELLO_NOISE1_MAX) {
        return TFE_EPROTO;
    }
    if (n - HELLO_CLEAR_BYTES < message_n + HELLO_MAC1_BYTES) {
        return TFE_EMORE;
    }
    *ret_message_n = message_n;
    return 0;
}

/* Who knocks: everything that can be said with keyed hashes. signed_n: the bytes before mac1. */
static int authenticate(struct hello_server *server, struct tfe_wall now, const uint8_t *in,
                        size_t signed_n, struct hello_keys *ret_keys, enum token_role *ret_role)
{
    if (memcmp(in + HELLO_AT_HINT, server->hint, TOKEN_HINT_BYTES) != 0) {
        return TFE_EAUTH;
    }
    const uint8_t *key_id = in + HELLO_AT_KEY_ID;
    uint8_t secret[TOKEN_SECRET_BYTES];
    int rc = token_derive(key_id, server->secrets->root, secret, ret_role);
    if (rc) {
        return rc;
    }
    hello_keys_derive(secret, ret_keys);
    sodium_memzero(secret, sizeof(secret));

    uint8_t mac1[HELLO_MAC1_BYTES];
    hello_mac1(ret_keys, in, signed_n, mac1);
    if (sodium_memcmp(mac1, in + signed_n, sizeof(mac1)) != 0) {
        return TFE_EAUTH;
    }
    /* After mac1: now it is known that the expiry is the one the token was made with. */
    struct tfe_wall expiry = token_expiry(key_id);
    if (expiry.ms != 0 && now.ms >= expiry.ms) {
        return TFE_EAUTH;
    }
    return replay_is_seen(server->replay, mac1) ? TFE_EAUTH : 0;
}

/* The versions that both speak. */
static int agree(const struct hello_facts *a, const struct hello_facts *b, uint32_t *ret_min,
                 uint32_t *ret_max)
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

/* The curve operations: reads message 1, writes length and message 2, splits. */
static int shake_hands(struct noise_handshake *hs, const struct hello_facts *facts,
                       const uint8_t *message, size_t message_n,
                       uint8_t ret_response[HELLO_RESPONSE_MAX], size_t *ret_response_n,
                       struct seal_session *ret_session, struct hello_facts *ret_client)
{
    uint8_t payload[HELLO_REQUEST_MAX];
    size_t n;
    int rc = noise_read(hs, message, message_n, payload, sizeof(payload), &n);
    if (rc) {
        return rc;
    }
    struct hello_facts client;
    rc = hello_facts_get(payload, n, &client);
    if (rc) {
        return rc;
    }
    rc = agree(facts, &client, &client.version_min, &client.version_max);
    if (rc) {
        return rc;
    }
    struct hello_facts answer = {.version_min = client.version_min,
                                 .version_max = client.version_max,
                                 .boot_nonce = facts->boot_nonce};
    hello_facts_put(&answer, payload);
    rc = noise_write(hs, payload, HELLO_FACTS_BYTES, ret_response + HELLO_LENGTH_BYTES,
                     HELLO_NOISE2_MAX, &n);
    if (rc) {
        return rc;
    }
    rc = noise_split(hs, ret_session);
    if (rc) {
        return rc;
    }
    be16_put(ret_response, (uint16_t)n);
    *ret_response_n = HELLO_LENGTH_BYTES + n;
    *ret_client = client;
    return 0;
}

int hello_server_answer(struct hello_server *server, struct tfe_wall now,
                        const struct hello_facts *facts, const uint8_t *in, size_t n,
                        size_t *ret_used, uint8_t ret_response[HELLO_RESPONSE_MAX],
                        size_t *ret_response_n, struct seal_session *ret_session,
                        enum token_role *ret_role, struct hello_facts *ret_client)
{
    size_t message_n;
    int rc = frame_request(in, n, &message_n);
    if (rc) {
        return rc;
    }
    size_t signed_n = HELLO_CLEAR_BYTES + message_n;
    struct hello_keys keys = {0};
    struct noise_handshake hs = {0};
    enum token_role role;
    rc = authenticate(server, now, in, signed_n, &keys, &role);
    if (rc) {
        goto out;
    }
    rc = hello_noise_init(&hs, &keys, server->secrets->static_secret, NULL, in);
    if (rc) {
        goto out;
    }
    rc = shake_hands(&hs, facts, in + HELLO_CLEAR_BYTES, message_n, ret_response, ret_response_n,
                     ret_session, ret_client);
    if (rc) {
        goto out;
    }
    *ret_role = role;
    *ret_used = signed_n + HELLO_MAC1_BYTES;

out:
    sodium_memzero(&keys, sizeof(keys));
    noise_done(&hs);
    return rc;
}
