/* common/handshake/handshake_client.c: the client's side of preamble and handshake. */
#include <sodium.h>
#include <string.h>

#include "common/handshake/handshake.h"
#include "common/handshake/handshake_layout.h"
#include "common/message/bytes.h"

struct handshake_client {
    struct noise_handshake noise; /* wiped once the handshake has finished or failed */
    uint32_t version_min;
    uint32_t version_max;
};

/* Writes the request except mac1. */
static int write_request(struct handshake_client *client, const struct token *token,
                         const struct handshake_params *params, const struct handshake_keys *keys,
                         uint8_t *out, size_t *ret_n)
{
    memcpy(out, HANDSHAKE_MAGIC, HANDSHAKE_MAGIC_BYTES);
    out[HANDSHAKE_OFFSET_VERSION] = HANDSHAKE_PREAMBLE_VERSION;
    const struct node_key *node_key = token->node_key;
    const size_t certificate_n = node_key ? node_key->certificate.n : 0;
    out[HANDSHAKE_OFFSET_FLAGS] = node_key ? HANDSHAKE_NODE_KEY : 0;
    token_hint(token->server_public_key, out + HANDSHAKE_OFFSET_HINT);
    memcpy(out + HANDSHAKE_OFFSET_KEY_ID, token->key_id, TOKEN_KEY_ID_BYTES);
    /* The length is needed before the message is written, because it is part of the prologue. */
    be16_put(out + HANDSHAKE_OFFSET_LENGTH,
             (uint16_t)(HANDSHAKE_NOISE_MIN + certificate_n +
                        (node_key ? NOISE_DH_BYTES + CIPHER_TAG_BYTES : 0)));

    int rc = handshake_noise_init(&client->noise, keys, node_key ? node_key->secret : NULL, NULL,
                                  token->server_public_key, out);
    if (rc) {
        return rc;
    }
    uint8_t payload[HANDSHAKE_PARAMS_BYTES + CERTIFICATE_MAX];
    handshake_params_put(params, payload);
    if (node_key) {
        memcpy(payload + HANDSHAKE_PARAMS_BYTES, node_key->certificate.bytes, certificate_n);
    }
    size_t message_n;
    rc = noise_write(&client->noise, payload, HANDSHAKE_PARAMS_BYTES + certificate_n,
                     out + HANDSHAKE_CLEAR_BYTES, HANDSHAKE_NOISE1_MAX, &message_n);
    if (rc) {
        return rc;
    }
    *ret_n = HANDSHAKE_CLEAR_BYTES + message_n;
    return 0;
}

int handshake_client_start(const struct token *token, const struct handshake_params *params,
                           uint8_t ret_request[HANDSHAKE_REQUEST_MAX], size_t *ret_request_n,
                           struct handshake_client **ret_client)
{
    if (params->version_min > params->version_max) {
        return TFE_EINVAL;
    }
    if (sodium_init() < 0) {
        return TFE_ESYS;
    }
    struct handshake_client *client = sodium_malloc(sizeof(*client));
    if (!client) {
        return TFE_ENOMEM;
    }
    client->version_min = params->version_min;
    client->version_max = params->version_max;

    struct handshake_keys keys;
    handshake_keys_derive(token->secret, &keys);
    uint8_t request[HANDSHAKE_REQUEST_MAX];
    size_t n = 0;
    int rc = write_request(client, token, params, &keys, request, &n);
    if (rc) {
        handshake_client_free(client);
    } else {
        handshake_mac1(&keys, request, n, request + n);
        n += HANDSHAKE_MAC1_BYTES;
        memcpy(ret_request, request, n);
        *ret_request_n = n;
        *ret_client = client;
    }
    sodium_memzero(&keys, sizeof(keys));
    return rc;
}

/* Decrypts message 2 and derives the session keys and the server's parameters. */
static int read_response(struct handshake_client *client, const uint8_t *message, size_t n,
                         struct seal_session *ret_session, struct handshake_params *ret_server)
{
    uint8_t payload[HANDSHAKE_RESPONSE_MAX];
    size_t payload_n;
    int rc = noise_read(&client->noise, message, n, payload, sizeof(payload), &payload_n);
    if (rc) {
        return rc;
    }
    struct handshake_params server;
    rc = handshake_params_get(payload, payload_n, &server);
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

int handshake_client_finish(struct handshake_client *client, const uint8_t *in, size_t n,
                            size_t *ret_used, struct seal_session *ret_session,
                            struct handshake_params *ret_server)
{
    if (!client->noise.pattern) {
        return TFE_ESTATE;
    }
    if (n < HANDSHAKE_LENGTH_BYTES) {
        return TFE_EMORE;
    }
    size_t message_n = be16_get(in);
    if (message_n < HANDSHAKE_NOISE_MIN || message_n > HANDSHAKE_NOISE2_MAX) {
        noise_done(&client->noise);
        return TFE_EPROTO;
    }
    if (n - HANDSHAKE_LENGTH_BYTES < message_n) {
        return TFE_EMORE;
    }
    int rc = read_response(client, in + HANDSHAKE_LENGTH_BYTES, message_n, ret_session, ret_server);
    if (rc) {
        noise_done(&client->noise);
        return rc;
    }
    *ret_used = HANDSHAKE_LENGTH_BYTES + message_n;
    return 0;
}

/* Wipes and frees: sodium_free does both. */
void handshake_client_free(struct handshake_client *client)
{
    sodium_free(client);
}
