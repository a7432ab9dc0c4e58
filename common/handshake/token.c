/* common/handshake/token.c: text form of tokens, and derivation of the secret from a key id. */
#include "common/handshake/token.h"

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "common/message/bytes.h"

/* Versions and layout of key_id (PROTOCOL.md, "Tokens"). */
#define KEY_ID_PLAIN 1
#define KEY_ID_STORED 2
#define KEY_ID_NODE 3
#define KEY_ID_USES_ANY 0
enum {
    AT_VERSION = 0,
    AT_GENERATION = 1,
    AT_ROLE = 2,
    AT_USES = 3,
    AT_EXPIRY = 4, /* u32, seconds since 1970; 0 for never */
    AT_RANDOM = 8
};

/* Layout of the bytes that base64 encodes. */
enum {
    BODY_KEY_ID = 0,
    BODY_SECRET = BODY_KEY_ID + TOKEN_KEY_ID_BYTES,
    BODY_PUBLIC_KEY = BODY_SECRET + TOKEN_SECRET_BYTES,
    BODY_CRC = BODY_PUBLIC_KEY + TOKEN_PUBLIC_KEY_BYTES,
    BODY_BYTES = BODY_CRC + 4
};

#define TEXT_PREFIX "tfe1_"
#define TEXT_BASE64 sodium_base64_VARIANT_URLSAFE_NO_PADDING
/* 84 bytes are 112 characters without a spare bit, so texts and tokens correspond one to one. */
#define TEXT_BASE64_CHARS (BODY_BYTES / 3 * 4)

_Static_assert(BODY_BYTES % 3 == 0, "no spare bits in the last character");
_Static_assert(sizeof(TEXT_PREFIX "observer_") + TEXT_BASE64_CHARS <= TOKEN_TEXT_MAX, "text");
_Static_assert(TOKEN_ROOT_BYTES == crypto_generichash_KEYBYTES, "root");
_Static_assert(TOKEN_SECRET_BYTES == crypto_generichash_BYTES, "secret");

static bool is_version(unsigned version)
{
    return version == KEY_ID_PLAIN || version == KEY_ID_STORED;
}

static bool is_role(unsigned role)
{
    return role >= PRINCIPAL_AGENT && role <= PRINCIPAL_ADMIN;
}

/* Computes the CRC-32 of zlib. Uses a mask instead of a branch, because the secret passes through
 * here. */
static uint32_t crc32_of(const uint8_t *data, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}

const uint8_t *token_root_of(const struct token_ring *ring, uint8_t generation)
{
    for (unsigned i = 0; i < ring->n; i++) {
        if (ring->v[i].generation == generation) {
            return ring->v[i].root;
        }
    }
    return NULL;
}

static void derive_secret(const uint8_t key_id[TOKEN_KEY_ID_BYTES],
                          const uint8_t root[TOKEN_ROOT_BYTES], uint8_t ret[TOKEN_SECRET_BYTES])
{
    (void)crypto_generichash(ret, TOKEN_SECRET_BYTES, key_id, TOKEN_KEY_ID_BYTES, root,
                             TOKEN_ROOT_BYTES);
}

/* Converts an expiry to seconds, rounded up so that no token expires early. A time after 2106 or
 * before 1970 becomes the last or first second that the field can hold, never "never". */
static uint32_t expiry_seconds(struct tfe_wall expires)
{
    if (expires.ms == 0) {
        return 0;
    }
    int64_t s = expires.ms / 1000 + (expires.ms % 1000 > 0);
    if (s < 1) {
        return 1;
    }
    return s > UINT32_MAX ? UINT32_MAX : (uint32_t)s;
}

void token_mint(struct token *ret, const struct token_config *config,
                const uint8_t root[TOKEN_ROOT_BYTES],
                const uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES])
{
    *ret = (struct token){.role = config->role};
    ret->key_id[AT_VERSION] = config->is_node_key ? KEY_ID_NODE
                              : config->is_stored ? KEY_ID_STORED
                                                  : KEY_ID_PLAIN;
    ret->key_id[AT_GENERATION] = config->generation;
    ret->key_id[AT_ROLE] = (uint8_t)config->role;
    ret->key_id[AT_USES] = config->uses;
    be32_put(ret->key_id + AT_EXPIRY, expiry_seconds(config->expires));
    if (config->renews) {
        memcpy(ret->key_id + AT_RANDOM, config->renews + AT_RANDOM, TOKEN_KEY_ID_BYTES - AT_RANDOM);
    } else {
        randombytes_buf(ret->key_id + AT_RANDOM, TOKEN_KEY_ID_BYTES - AT_RANDOM);
    }
    derive_secret(ret->key_id, root, ret->secret);
    memcpy(ret->server_public_key, server_public_key, TOKEN_PUBLIC_KEY_BYTES);
}

void token_format(const struct token *token, char ret[TOKEN_TEXT_MAX])
{
    uint8_t body[BODY_BYTES];
    memcpy(body + BODY_KEY_ID, token->key_id, TOKEN_KEY_ID_BYTES);
    memcpy(body + BODY_SECRET, token->secret, TOKEN_SECRET_BYTES);
    memcpy(body + BODY_PUBLIC_KEY, token->server_public_key, TOKEN_PUBLIC_KEY_BYTES);
    be32_put(body + BODY_CRC, crc32_of(body, BODY_CRC));

    const char *role = principal_role_name(token->role);
    size_t prefix_n = sizeof(TEXT_PREFIX) - 1;
    size_t role_n = strlen(role);
    memcpy(ret, TEXT_PREFIX, prefix_n);
    memcpy(ret + prefix_n, role, role_n);
    ret[prefix_n + role_n] = '_';
    size_t at = prefix_n + role_n + 1;
    (void)sodium_bin2base64(ret + at, TOKEN_TEXT_MAX - at, body, sizeof(body), TEXT_BASE64);
    sodium_memzero(body, sizeof(body));
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Parses a role's name followed by '_' and advances *text past it. Returns 0 if there is none. */
static unsigned parse_role(const char **text, size_t *n)
{
    for (unsigned role = PRINCIPAL_AGENT; role <= PRINCIPAL_ADMIN; role++) {
        const char *word = principal_role_name((enum principal_role)role);
        size_t word_n = strlen(word);
        if (*n > word_n && memcmp(*text, word, word_n) == 0 && (*text)[word_n] == '_') {
            *text += word_n + 1;
            *n -= word_n + 1;
            return role;
        }
    }
    return 0;
}

/* True if all bytes are ASCII. libsodium accepts some non-ASCII bytes as base64's last
 * character. */
static bool is_ascii(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] > 0x7f) {
            return false;
        }
    }
    return true;
}

int token_parse(struct token *ret, const char *text)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf"; /* some editors begin a file with it */
    if (strncmp(text, byte_order_mark, sizeof(byte_order_mark) - 1) == 0) {
        text += sizeof(byte_order_mark) - 1;
    }
    while (is_space(*text)) {
        text++;
    }
    size_t n = strlen(text);
    while (n && is_space(text[n - 1])) {
        n--;
    }
    size_t prefix_n = sizeof(TEXT_PREFIX) - 1;
    if (n < prefix_n || memcmp(text, TEXT_PREFIX, prefix_n) != 0) {
        return TFE_EINVAL;
    }
    text += prefix_n;
    n -= prefix_n;
    unsigned role = parse_role(&text, &n);
    if (!role || n != TEXT_BASE64_CHARS || !is_ascii(text, n)) {
        return TFE_EINVAL;
    }

    uint8_t body[BODY_BYTES];
    size_t body_n = 0;
    int rc = TFE_EINVAL;
    if (sodium_base642bin(body, sizeof(body), text, n, NULL, &body_n, NULL, TEXT_BASE64) == 0 &&
        body_n == sizeof(body) && be32_get(body + BODY_CRC) == crc32_of(body, BODY_CRC) &&
        is_version(body[BODY_KEY_ID + AT_VERSION]) && body[BODY_KEY_ID + AT_ROLE] == role) {
        ret->role = (enum principal_role)role;
        ret->node_key = NULL;
        memcpy(ret->key_id, body + BODY_KEY_ID, TOKEN_KEY_ID_BYTES);
        memcpy(ret->secret, body + BODY_SECRET, TOKEN_SECRET_BYTES);
        memcpy(ret->server_public_key, body + BODY_PUBLIC_KEY, TOKEN_PUBLIC_KEY_BYTES);
        rc = 0;
    }
    sodium_memzero(body, sizeof(body));
    return rc;
}

struct tfe_wall token_expiry(const uint8_t key_id[TOKEN_KEY_ID_BYTES])
{
    return (struct tfe_wall){.ms = (int64_t)be32_get(key_id + AT_EXPIRY) * 1000};
}

bool token_is_node_key(const uint8_t key_id[TOKEN_KEY_ID_BYTES])
{
    return key_id[AT_VERSION] == KEY_ID_NODE;
}

int token_compare(const uint8_t a[TOKEN_KEY_ID_BYTES], const uint8_t b[TOKEN_KEY_ID_BYTES])
{
    bool are_node_keys = token_is_node_key(a) && token_is_node_key(b);
    size_t from = are_node_keys ? AT_RANDOM : 0;
    return memcmp(a + from, b + from, TOKEN_KEY_ID_BYTES - from);
}

uint8_t token_uses(const uint8_t key_id[TOKEN_KEY_ID_BYTES])
{
    return key_id[AT_USES];
}

uint8_t token_generation(const uint8_t key_id[TOKEN_KEY_ID_BYTES])
{
    return key_id[AT_GENERATION];
}

bool token_is_stored(const uint8_t key_id[TOKEN_KEY_ID_BYTES])
{
    return key_id[AT_VERSION] == KEY_ID_STORED;
}

int token_derive(const uint8_t key_id[TOKEN_KEY_ID_BYTES], const uint8_t root[TOKEN_ROOT_BYTES],
                 uint8_t ret_secret[TOKEN_SECRET_BYTES], struct principal *ret)
{
    const bool is_stored = token_is_stored(key_id);
    const bool is_node_key = token_is_node_key(key_id);
    /* Uses are counted in the record of a stored token. Node keys are for agents only. */
    if ((!is_version(key_id[AT_VERSION]) && !is_node_key) || !is_role(key_id[AT_ROLE]) ||
        (is_node_key && key_id[AT_ROLE] != PRINCIPAL_AGENT) ||
        (!is_stored && key_id[AT_USES] != KEY_ID_USES_ANY)) {
        return TFE_EAUTH;
    }
    derive_secret(key_id, root, ret_secret);
    *ret = (struct principal){.kind = is_node_key ? PRINCIPAL_BY_NODE_KEY : PRINCIPAL_BY_TOKEN,
                              .role = (enum principal_role)key_id[AT_ROLE],
                              .generation = token_generation(key_id),
                              .is_stored = is_stored,
                              .expires = token_expiry(key_id),
                              .scope = PRINCIPAL_EVERY_JOB};
    memcpy(ret->key_id, key_id, sizeof(ret->key_id));
    memcpy(ret->origin, key_id, sizeof(ret->origin));
    return 0;
}

void token_hint(const uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES],
                uint8_t ret[TOKEN_HINT_BYTES])
{
    uint8_t hash[crypto_generichash_BYTES_MAX];
    (void)crypto_generichash(hash, sizeof(hash), server_public_key, TOKEN_PUBLIC_KEY_BYTES, NULL,
                             0);
    memcpy(ret, hash, TOKEN_HINT_BYTES);
}

void token_id_text(const uint8_t key_id[TOKEN_KEY_ID_BYTES], char ret[MSG_KEY_HEX + 1])
{
    (void)sodium_bin2hex(ret, MSG_KEY_HEX + 1, key_id, TOKEN_KEY_ID_BYTES);
}

void token_done(struct token *token)
{
    if (token) {
        sodium_memzero(token, sizeof(*token));
    }
}
