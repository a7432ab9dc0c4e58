/* common/handshake/certificate.h: certificate of the rights of an agent's own key, sealed by the
 * server that issued it. The server verifies agents by the certificate alone and stores no list of
 * them. */
#ifndef TFE_COMMON_HANDSHAKE_CERTIFICATE_H
#define TFE_COMMON_HANDSHAKE_CERTIFICATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/handshake/token.h"
#include "common/message/principal.h"
#include "common/message/range.h"

#define CERTIFICATE_SEAL_BYTES 32
/* Layout: origin, length of the scope, scope, seal. */
#define CERTIFICATE_MAX (PRINCIPAL_KEY_ID_BYTES + 1 + MSG_SCOPE_MAX + CERTIFICATE_SEAL_BYTES)

_Static_assert(CERTIFICATE_MAX == MSG_CERTIFICATE_MAX, "a certificate in a message");

struct certificate {
    size_t n;
    uint8_t bytes[CERTIFICATE_MAX];
};

/* Private part of an agent's own key. Wipe after use. */
struct node_key {
    uint8_t secret[32]; /* X25519 secret key */
    struct certificate certificate;
};

/* Issues a certificate for the key id and public key, with the rights of `by`. root is the root key
 * of the key's generation. */
void certificate_make(const uint8_t key_id[TOKEN_KEY_ID_BYTES], const uint8_t public_key[32],
                      const struct principal *by, const uint8_t root[TOKEN_ROOT_BYTES],
                      struct certificate *ret);

/* Verifies a certificate and sets origin and scope (stored in buf) of *ret, whose key_id the
 * caller has set. Returns TFE_EAUTH if this root has not sealed it for this key. */
int certificate_read(const uint8_t *in, size_t n, const uint8_t public_key[32],
                     const uint8_t root[TOKEN_ROOT_BYTES], char buf[MSG_SCOPE_MAX + 1],
                     struct principal *ret) TFE_MUST_CHECK;

#endif
