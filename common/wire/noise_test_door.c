/* common/wire/noise_test_door.c: FOR TESTS ONLY: a handshake whose ephemeral key is not random. */
#include "common/wire/noise_test_door.h"

#include <string.h>

void noise_test_door_fix_ephemeral(struct noise_handshake *hs, const uint8_t secret[NOISE_DH_BYTES])
{
    memcpy(hs->e, secret, NOISE_DH_BYTES);
    hs->e_is_fixed = true;
}
