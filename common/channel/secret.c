/* common/channel/secret.c: random secrets and their hashes. */
#include "common/channel/secret.h"

#include <sodium.h>
#include <string.h>

#include "common/base/error.h"

#define BYTES (SECRET_CHARS / 2)

_Static_assert(SECRET_CHARS <= TFE_ID_MAX, "a hash of all its bytes is an id");

void secret_make(char ret[SECRET_CHARS + 1])
{
    uint8_t bytes[BYTES];
    randombytes_buf(bytes, sizeof(bytes));
    (void)sodium_bin2hex(ret, SECRET_CHARS + 1, bytes, sizeof(bytes));
    sodium_memzero(bytes, sizeof(bytes));
}

int secret_hash(const char *secret, const unsigned char *person, size_t n, struct tfe_id *ret)
{
    uint8_t bytes[BYTES];
    uint8_t hash[BYTES];
    size_t length = 0;
    if (!secret ||
        sodium_hex2bin(bytes, sizeof(bytes), secret, strnlen(secret, SECRET_CHARS + 1), NULL,
                       &length, NULL) ||
        length != sizeof(bytes)) {
        return TFE_EINVAL;
    }
    (void)crypto_generichash_blake2b_salt_personal(hash, n, bytes, sizeof(bytes), NULL, 0, NULL,
                                                   person);
    sodium_memzero(bytes, sizeof(bytes));
    *ret = (struct tfe_id){.text = ""};
    (void)sodium_bin2hex(ret->text, sizeof(ret->text), hash, n);
    return 0;
}
