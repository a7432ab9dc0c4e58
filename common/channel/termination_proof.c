/* common/channel/termination_proof.c: makes, hashes and parses proofs of termination. */
#include "common/channel/termination_proof.h"

#include <string.h>

#include "common/channel/secret.h"

_Static_assert(PROOF_CHARS == SECRET_CHARS, "it is one");

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
