/* common/channel/noise_patterns.c: the handshake patterns of the protocol. */
#include "common/channel/noise_patterns.h"

/* Noise rev. 34, 7.5 and 9.4:
 *     <- s
 *     ...
 *     -> psk, e, es
 *     <- e, ee */
const struct noise_pattern noise_nkpsk0 = {
    .protocol_name = "Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b",
    .responder_static_is_known = true,
    .n_psks = 1,
    .n_messages = 2,
    .messages = {{NOISE_PSK, NOISE_E, NOISE_ES}, {NOISE_E, NOISE_EE}},
};

/* Noise rev. 34, 7.5:
 *     <- s
 *     ...
 *     -> e, es, s, ss
 *     <- e, ee, se */
const struct noise_pattern noise_ik = {
    .protocol_name = "Noise_IK_25519_ChaChaPoly_BLAKE2b",
    .responder_static_is_known = true,
    .n_messages = 2,
    .messages = {{NOISE_E, NOISE_ES, NOISE_S, NOISE_SS}, {NOISE_E, NOISE_EE, NOISE_SE}},
};
