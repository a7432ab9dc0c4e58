/* common/channel/token.h: join tokens: who may do what, for how long, and the keys that follow from
 * it. */
#ifndef TFE_COMMON_CHANNEL_TOKEN_H
#define TFE_COMMON_CHANNEL_TOKEN_H

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
/* "tfe1_observer_" and 84 bytes in base64url without padding, and the NUL. */
#define TOKEN_TEXT_MAX 160

/* Roots that a server takes tokens of at a time, and at most: an old one goes before a fifth comes.
 */
#define TOKEN_RING_MAX 4

/* The newest is the last. */
struct token_ring {
    uint8_t n;
    uint8_t used; /* index of the one that new tokens are made with */
    struct token_root {
        uint8_t generation;
        uint8_t root[TOKEN_ROOT_BYTES];
    } v[TOKEN_RING_MAX];
};

/* NULL: there is none of this generation. */
const uint8_t *token_root_of(const struct token_ring *ring, uint8_t generation);

struct node_key;

/* What opens a session: a token, or the key that an agent has got with one. */
struct token {
    enum principal_role role;
    uint8_t key_id[TOKEN_KEY_ID_BYTES];
    uint8_t secret[TOKEN_SECRET_BYTES];
    uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES];
    const struct node_key *node_key; /* NULL: a token. Borrowed, lives as long as this */
};

/* What a new token is to be. */
struct token_wish {
    enum principal_role role;
    uint8_t generation;      /* of the root */
    uint8_t uses;            /* by so many nodes; 0: any number */
    bool is_kept;            /* worthless without a row of it on the server */
    bool is_node_key;        /* worthless without a certificate, and the secret of its key */
    const uint8_t *renews;   /* id of the node key that this one goes on for; NULL: of none */
    struct tfe_wall expires; /* ms 0: never */
};

/* Makes a token: key_id as wished, with a random rest, and secret = keyed BLAKE2b(root, key_id),
 * design 3.1. */
void token_mint(struct token *ret, const struct token_wish *wish,
                const uint8_t root[TOKEN_ROOT_BYTES],
                const uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES]);

/* Text form `tfe1_<role>_<base64url>`, NUL-terminated. */
void token_format(const struct token *token, char ret[TOKEN_TEXT_MAX]);

/* Parses the text form; surrounding white space is allowed (files end in a newline).
 * TFE_EINVAL: not a token, its checksum is wrong, or word and key_id name different roles. */
int token_parse(struct token *ret, const char *text) TFE_MUST_CHECK;

/* When key_id says the token expires; ms 0: never. */
struct tfe_wall token_expiry(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);

/* Whether it is the id of a node key. */
bool token_is_node_key(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);

/* An order of ids. 0: they are one key, or node keys of which one was renewed to the other, maybe
 * by way of more: what is taken back or kept out is all of them, or its holder would go on with the
 * one before. */
int token_compare(const uint8_t a[TOKEN_KEY_ID_BYTES], const uint8_t b[TOKEN_KEY_ID_BYTES]);

/* By how many nodes; 0: any number. */
uint8_t token_uses(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);

/* The generation of the root that key_id names, and whether it needs a row on the server. */
uint8_t token_generation(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);
bool token_is_kept(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);

/* The secret that belongs to key_id under root, which is that of its generation, and who speaks
 * with it: as far as key_id alone tells, for every job and without a label. Of a node key more is
 * told by its certificate.
 * TFE_EAUTH: not a key id of ours (unknown version, role). Says nothing about expiry. */
int token_derive(const uint8_t key_id[TOKEN_KEY_ID_BYTES], const uint8_t root[TOKEN_ROOT_BYTES],
                 uint8_t ret_secret[TOKEN_SECRET_BYTES], struct principal *ret) TFE_MUST_CHECK;

/* The first 8 bytes of BLAKE2b(server public key): lets a server of several keys, or a wrong
 * server, tell at once. */
void token_hint(const uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES],
                uint8_t ret[TOKEN_HINT_BYTES]);

/* The id in hexadecimal. */
void token_id_text(const uint8_t key_id[TOKEN_KEY_ID_BYTES], char ret[MSG_KEY_HEX + 1]);

/* Wipes. NULL is allowed. */
void token_done(struct token *token);

#endif
