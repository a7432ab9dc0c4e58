/* common/channel/certificate.h: what an agent's own key is good for, sealed by the server that made
 * it: a server knows its agents by this alone, and keeps no list. */
#ifndef TFE_COMMON_CHANNEL_CERTIFICATE_H
#define TFE_COMMON_CHANNEL_CERTIFICATE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/range.h"
#include "common/channel/token.h"
#include "common/message/principal.h"

#define CERTIFICATE_SEAL_BYTES 32
/* origin, length of the scope, scope, seal */
#define CERTIFICATE_MAX (PRINCIPAL_KEY_ID_BYTES + 1 + MSG_SCOPE_MAX + CERTIFICATE_SEAL_BYTES)

_Static_assert(CERTIFICATE_MAX == MSG_CERTIFICATE_MAX, "a certificate in a message");

struct certificate {
    size_t n;
    uint8_t bytes[CERTIFICATE_MAX];
};

/* An agent's own key. Wipe after use. */
struct node_key {
    uint8_t secret[32]; /* X25519 */
    struct certificate certificate;
};

/* Certifies that the key of this id is for the holder of public_key's secret, and good for what
 * `by` is. root: of the key's generation. */
void certificate_make(const uint8_t key_id[TOKEN_KEY_ID_BYTES], const uint8_t public_key[32],
                      const struct principal *by, const uint8_t root[TOKEN_ROOT_BYTES],
                      struct certificate *ret);

/* Fills in origin and scope (in room) of ret, whose key_id is known. TFE_EAUTH: this root has not
 * sealed it for this key. */
int certificate_read(const uint8_t *in, size_t n, const uint8_t public_key[32],
                     const uint8_t root[TOKEN_ROOT_BYTES], char room[MSG_SCOPE_MAX + 1],
                     struct principal *ret) TFE_MUST_CHECK;

#endif
