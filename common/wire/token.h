/* common/wire/token.h: join tokens: who may do what, for how long, and the keys that follow from
 * it. */
#ifndef TFE_COMMON_WIRE_TOKEN_H
#define TFE_COMMON_WIRE_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"

#define TOKEN_KEY_ID_BYTES 16
#define TOKEN_SECRET_BYTES 32
#define TOKEN_PUBLIC_KEY_BYTES 32
#define TOKEN_ROOT_BYTES 32
#define TOKEN_HINT_BYTES 8
/* "tfe1_observer_" and 84 bytes in base64url without padding, and the NUL. */
#define TOKEN_TEXT_MAX 160

/* Values are on the wire (inside key_id). */
enum token_role { TOKEN_AGENT = 1, TOKEN_OBSERVER = 2, TOKEN_ADMIN = 3 };

struct token {
    enum token_role role;
    uint8_t key_id[TOKEN_KEY_ID_BYTES];
    uint8_t secret[TOKEN_SECRET_BYTES];
    uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES];
};

/* "agent", "observer", "admin", or "?" */
const char *token_role_name(enum token_role role);

/* Makes a token of the role: key_id (role, generation, expiry; uses unlimited, random rest) and
 * secret = keyed BLAKE2b(root, key_id), SECURITY.md. expires.ms 0: never. */
void token_mint(struct token *ret, enum token_role role, struct tfe_wall expires,
                const uint8_t root[TOKEN_ROOT_BYTES],
                const uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES]);

/* Text form `tfe1_<role>_<base64url>`, NUL-terminated. */
void token_format(const struct token *token, char ret[TOKEN_TEXT_MAX]);

/* Parses the text form; surrounding white space is allowed (files end in a newline).
 * TFE_EINVAL: not a token, its checksum is wrong, or its word and its key_id name different roles.
 */
int token_parse(struct token *ret, const char *text) TFE_MUST_CHECK;

/* When key_id says the token expires; ms 0: never. */
struct tfe_wall token_expiry(const uint8_t key_id[TOKEN_KEY_ID_BYTES]);

/* The secret that belongs to key_id under root, and the role it carries.
 * TFE_EAUTH: not a key id of ours (unknown version, role). Says nothing about expiry. */
int token_derive(const uint8_t key_id[TOKEN_KEY_ID_BYTES], const uint8_t root[TOKEN_ROOT_BYTES],
                 uint8_t ret_secret[TOKEN_SECRET_BYTES], enum token_role *ret_role) TFE_MUST_CHECK;

/* The first 8 bytes of BLAKE2b(server public key): lets a server of several keys, or a wrong
 * server, tell at once. */
void token_hint(const uint8_t server_public_key[TOKEN_PUBLIC_KEY_BYTES],
                uint8_t ret[TOKEN_HINT_BYTES]);

/* Wipes. NULL is allowed. */
void token_done(struct token *token);

#endif
