/* common/handshake/handshake_client.c: the client's side of preamble and handshake. */
#include <sodium.h>
#include <string.h>

#include "common/handshake/handshake.h"
#include "common/handshake/handshake_layout.h"
#include "common/message/bytes.h"

struct hello_client {
    struct noise_handshake noise; /* wiped once the handshake has finished or failed */
    uint32_t version_min;
    uint32_t version_max;
};

/* Writes the request except mac1. */
static int write_request(struct hello_client *client, const struct token *token,
                         const struct hello_facts *facts, const struct hello_keys *keys,
                         uint8_t *out, size_t *ret_n)
{
    memcpy(out, HELLO_MAGIC, HELLO_MAGIC_BYTES);
    out[HELLO_AT_VERSION] = HELLO_PREAMBLE_VERSION;
    const struct node_key *node_key = token->node_key;
    const size_t certificate_n = node_key ? node_key->certificate.n : 0;
    out[HELLO_AT_FLAGS] = node_key ? HELLO_NODE_KEY : 0;
    token_hint(token->server_public_key, out + HELLO_AT_HINT);
    memcpy(out + HELLO_AT_KEY_ID, token->key_id, TOKEN_KEY_ID_BYTES);
    /* The length is needed before the message is written, because it is part of the prologue. */
    be16_put(out + HELLO_AT_LENGTH, (uint16_t)(HELLO_NOISE_MIN + certificate_n +
                                               (node_key ? NOISE_DH_BYTES + CIPHER_TAG_BYTES : 0)));

    int rc = hello_noise_init(&client->noise, keys, node_key ? node_key->secret : NULL, NULL,
                              token->server_public_key, out);
    if (rc) {
        return rc;
    }
    uint8_t payload[HELLO_FACTS_BYTES + CERTIFICATE_MAX];
    hello_facts_put(facts, payload);
    if (node_key) {
        memcpy(payload + HELLO_FACTS_BYTES, node_key->certificate.bytes, certificate_n);
    }
    size_t message_n;
    rc = noise_write(&client->noise, payload, HELLO_FACTS_BYTES + certificate_n,
                     out + HELLO_CLEAR_BYTES, HELLO_NOISE1_MAX, &message_n);
    if (rc) {
        return rc;
    }
    *ret_n = HELLO_CLEAR_BYTES + message_n;
    return 0;
}

int hello_client_start(const struct token *token, const struct hello_facts *facts,
                       uint8_t ret_request[HELLO_REQUEST_MAX], size_t *ret_request_n,
                       struct hello_client **ret_client)
{
    if (facts->version_min > facts->version_max) {
        return TFE_EINVAL;
    }
    if (sodium_init() < 0) {
        return TFE_ESYS;
    }
    struct hello_client *client = sodium_malloc(sizeof(*client));
    if (!client) {
        return TFE_ENOMEM;
    }
    client->version_min = facts->version_min;
    client->version_max = facts->version_max;

    struct hello_keys keys;
    hello_keys_derive(token->secret, &keys);
    uint8_t request[HELLO_REQUEST_MAX];
    size_t n = 0;
    int rc = write_request(client, token, facts, &keys, request, &n);
    if (rc) {
        hello_client_free(client);
    } else {
        hello_mac1(&keys, request, n, request + n);
        n += HELLO_MAC1_BYTES;
        memcpy(ret_request, request, n);
        *ret_request_n = n;
        *ret_client = client;
    }
    sodium_memzero(&keys, sizeof(keys));
    return rc;
}

/* Decrypts message 2 and derives the session keys and the server's facts. */
static int read_response(struct hello_client *client, const uint8_t *message, size_t n,
                         struct seal_session *ret_session, struct hello_facts *ret_server)
{
    uint8_t payload[HELLO_RESPONSE_MAX];
    size_t payload_n;
    int rc = noise_read(&client->noise, message, n, payload, sizeof(payload), &payload_n);
    if (rc) {
        return rc;
    }
    struct hello_facts server;
    rc = hello_facts_get(payload, payload_n, &server);
    if (rc) {
        return rc;
    }
    /* The server must answer with a range within the one that was offered. */
    if (server.version_min < client->version_min || server.version_max > client->version_max) {
        return TFE_EPROTO;
    }
    rc = noise_split(&client->noise, ret_session);
    if (rc == 0) {
        *ret_server = server;
    }
    return rc;
}

int hello_client_finish(struct hello_client *client, const uint8_t *in, size_t n, size_t *ret_used,
                        struct seal_session *ret_session, struct hello_facts *ret_server)
{
    if (!client->noise.pattern) {
        return TFE_ESTATE;
    }
    if (n < HELLO_LENGTH_BYTES) {
        return TFE_EMORE;
    }
    size_t message_n = be16_get(in);
    if (message_n < HELLO_NOISE_MIN || message_n > HELLO_NOISE2_MAX) {
        noise_done(&client->noise);
        return TFE_EPROTO;
    }
    if (n - HELLO_LENGTH_BYTES < message_n) {
        return TFE_EMORE;
    }
    int rc = read_response(client, in + HELLO_LENGTH_BYTES, message_n, ret_session, ret_server);
    if (rc) {
        noise_done(&client->noise);
        return rc;
    }
    *ret_used = HELLO_LENGTH_BYTES + message_n;
    return 0;
}

/* Wipes and frees: sodium_free does both. */
void hello_client_free(struct hello_client *client)
{
    sodium_free(client);
}
