/* common/handshake/token.h: tokens: role, lifetime and rights of a holder, and the keys derived
 * from a token. */
#ifndef TFE_COMMON_HANDSHAKE_TOKEN_H
#define TFE_COMMON_HANDSHAKE_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/message/principal.h"

#define TOKEN_KEY_ID_BYTES PRINCIPAL_KEY_ID_BYTES
#define TOKEN_SECRET_BYTES 32
#define TOKEN_PUBLIC_KEY_BYTES 32
#define TOKEN_ROOT_BYTES 32
#define TOKEN_HINT_BYTES 8
/* Size of a token as text: "tfe1_observer_", 84 bytes in base64url without padding, and the NUL. */
#define TOKEN_TEXT_MAX 160

/* Maximum number of root keys whose tokens a server accepts; the oldest is removed before a fifth
 * is added. */
#define TOKEN_RING_MAX 4

/* Root keys, oldest first. */
struct token_ring {
    uint8_t n;
    uint8_t used; /* index of the root key for new tokens */
    struct token_root {
        uint8_t generation;
        uint8_t root[TOKEN_ROOT_BYTES];
    } v[TOKEN_RING_MAX];
};

/* Returns the root key of a generation, or NULL if there is none. */
const uint8_t *token_root_of(const struct token_ring *ring, uint8_t generation);

struct node_key;

/* Credentials that open a session: a token, or an agent's own key obtained with one. */
struct token {
    enum principal_role role;
    uint8_t key_id[TOKEN_KEY_ID_BYTES];
    uint8_t secret[TOKEN_SECRET_BYTES];
    uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES];
    const struct node_key
        *node_key; /* own key of an agent, borrowed for the life of this struct; NULL for a token */
};

/* Properties of a new token. */
struct token_config {
    enum principal_role role;
    uint8_t generation; /* generation of the root key */
    uint8_t uses;       /* number of nodes that may use the token; 0 for any number */
    bool is_stored;     /* the token is valid only with a record on the server */
    bool
        is_node_key; /* the key is valid only with a certificate and the secret of its public key */
    const uint8_t *renews;   /* id of the node key that this key renews; NULL if none */
    struct tfe_wall expires; /* expiry; ms 0 for never */
};

/* Makes a token: key_id has the properties of config and a random part; secret = keyed
 * BLAKE2b(root, key_id) (design 3.1). */
void token_mint(struct token *ret, const struct token_config *config,
                const uint8_t root[TOKEN_ROOT_BYTES],
                const uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES]);

/* Writes the token as text, `tfe1_<role>_<base64url>`, NUL-terminated. */
void token_format(const struct token *token, char ret[TOKEN_TEXT_MAX]);

/* Parses a token's text; surrounding white space (files end in a newline) and a UTF-8 byte order
 * mark before the text are permitted. Returns TFE_EINVAL if the text is not a token, its checksum
 * is wrong, or its role differs from that in key_id. */
int token_parse(struct token *ret, const char *text) TFE_MUST_CHECK;

/* Returns the expiry encoded in key_id; ms 0 for never. */
struct tfe_wall token_expiry(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);

/* True if key_id belongs to a node key. */
bool token_is_node_key(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);

/* Compares key ids. Returns 0 if they are equal, or if both are node keys and one was renewed,
 * possibly repeatedly, to the other: revoking or denying a key must affect all of them, or its
 * holder would continue with an older one. */
int token_compare(const uint8_t a[TOKEN_KEY_ID_BYTES], const uint8_t b[TOKEN_KEY_ID_BYTES]);

/* Returns the number of nodes that may use the key; 0 for any number. */
uint8_t token_uses(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);

/* token_generation: the generation of the root key that key_id names. token_is_stored: whether the
 * key needs a record on the server. */
uint8_t token_generation(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);
bool token_is_stored(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);

/* Derives the secret of key_id from the root key of its generation, and the identity as far as
 * key_id encodes it: scope every job, no label. A node key's certificate adds the rest. Returns
 * TFE_EAUTH for an unknown version or role. Does not check the expiry. */
int token_derive(const uint8_t key_id[TOKEN_KEY_ID_BYTES], const uint8_t root[TOKEN_ROOT_BYTES],
                 uint8_t ret_secret[TOKEN_SECRET_BYTES], struct principal *ret) TFE_MUST_CHECK;

/* Computes the first 8 bytes of BLAKE2b(server public key), by which a server rejects clients of
 * another server at once. */
void token_hint(const uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES],
                uint8_t ret[TOKEN_HINT_BYTES]);

/* Writes the key id in hexadecimal. */
void token_id_text(const uint8_t key_id[TOKEN_KEY_ID_BYTES], char ret[MSG_KEY_HEX + 1]);

/* Wipes the token. NULL is allowed. */
void token_done(struct token *token);

#endif
