/* common/channel/noise_patterns.h: the handshake patterns of the protocol. */
#ifndef TFE_COMMON_CHANNEL_NOISE_PATTERNS_H
#define TFE_COMMON_CHANNEL_NOISE_PATTERNS_H

#include "common/channel/noise.h"

/* Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b: the client knows the server's public key, and both know
 * the token's secret. */
extern const struct noise_pattern noise_nkpsk0;
/* Noise_IK_25519_ChaChaPoly_BLAKE2b: the client knows the server's public key and proves its
 * own. */
extern const struct noise_pattern noise_ik;

#endif
