/* common/wire/noise_test_door.h: FOR TESTS ONLY: a handshake whose ephemeral key is not random. */
#ifndef TFE_COMMON_WIRE_NOISE_TEST_DOOR_H
#define TFE_COMMON_WIRE_NOISE_TEST_DOOR_H

#include "common/wire/noise.h"

/* Makes the next e that hs writes this secret, as published test vectors need it. A handshake with
 * a known ephemeral protects nothing. It has a file of its own, so that no program that does not
 * name it links it. Call it after noise_init. */
void noise_test_door_fix_ephemeral(struct noise_handshake *hs,
                                   const uint8_t secret[NOISE_DH_BYTES]);

#endif
