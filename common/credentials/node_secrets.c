/* common/credentials/node_secrets.c: a node's id and its proof of termination, both by secrets that
 * are published by their hash. */
#include "common/credentials/node_secrets.h"

#include <limits.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"

#define SECRET_CHARS 64 /* characters of a secret in hexadecimal */
_Static_assert(MSG_NODE_SECRET_CHARS == SECRET_CHARS, "a node secret is a secret");
_Static_assert(PROOF_CHARS == SECRET_CHARS, "a proof is a secret");

#define BYTES (SECRET_CHARS / 2)

_Static_assert(SECRET_CHARS <= TFE_ID_MAX, "a hash of all its bytes is an id");

/* Makes a secret: 32 random bytes in lower-case hexadecimal. */
static void secret_make(char ret[SECRET_CHARS + 1])
{
    uint8_t bytes[BYTES];
    randombytes_buf(bytes, sizeof(bytes));
    (void)sodium_bin2hex(ret, SECRET_CHARS + 1, bytes, sizeof(bytes));
    sodium_memzero(bytes, sizeof(bytes));
}

/* Computes the BLAKE2b hash of n bytes (at most 32) of the secret, in lower-case hexadecimal.
 * person is NULL, or 16 bytes that separate the uses of hashes. Returns TFE_EINVAL if the secret is
 * NULL or malformed. */
static int secret_hash(const char *secret, const unsigned char *person, size_t n,
                       struct tfe_id *ret)
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

/* --- node id ---------------------------------------------------------------------------------- */

#define NODE_ID_BYTES 16 /* bytes of a node id's hash */

void node_secret_make(char ret[MSG_NODE_SECRET_CHARS + 1])
{
    secret_make(ret);
}

void node_label(const char *wanted, struct tfe_id *ret)
{
    char host[HOST_NAME_MAX + 1] = "";
    if (wanted) {
        id_from_text(ret, wanted);
        return;
    }
    (void)gethostname(host, sizeof(host) - 1);
    id_from_text(ret, host);
}

int node_id_of(const char *secret, struct tfe_id *ret)
{
    return secret_hash(secret, NULL, NODE_ID_BYTES, ret);
}

bool node_id_is_proved(const char *id, const char *secret)
{
    struct tfe_id proved;
    return node_id_of(secret, &proved) == 0 && strcmp(proved.text, id) == 0;
}

/* --- proof of termination --------------------------------------------------------------------- */

void proof_make(char ret[PROOF_CHARS + 1])
{
    secret_make(ret);
}

int proof_hash_of(const char *certificate, struct tfe_id *ret)
{
    /* Domain separation: the hash of another secret, such as a node id's, must not serve as a
     * proof. */
    static const unsigned char person[16] = "tfe certificate";
    return secret_hash(certificate, person, PROOF_CHARS / 2, ret);
}

bool proof_read_line(const char *text, size_t n, char ret[PROOF_CHARS + 1])
{
    const size_t before = sizeof(PROOF_LINE_PREFIX) - 1;
    if (n < before + PROOF_CHARS + 1 || memcmp(text, PROOF_LINE_PREFIX, before) != 0 ||
        text[before + PROOF_CHARS] != '\n') {
        return false;
    }
    memcpy(ret, text + before, PROOF_CHARS);
    ret[PROOF_CHARS] = '\0';
    return strspn(ret, "0123456789abcdef") == PROOF_CHARS;
}
