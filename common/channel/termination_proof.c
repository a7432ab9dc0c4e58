/* common/channel/termination_proof.c: a node's death certificate: bytes that prove that all it ran
 * has ended. */
#include "common/channel/termination_proof.h"

#include <string.h>

#include "common/channel/secret.h"

_Static_assert(DEATH_CHARS == SECRET_CHARS, "it is one");

void death_make(char ret[DEATH_CHARS + 1])
{
    secret_make(ret);
}

int death_hash_of(const char *certificate, struct tfe_id *ret)
{
    /* Of no other use: what hashes to a node's id, say, never serves as a proof of its death. */
    static const unsigned char person[16] = "tfe certificate";
    return secret_hash(certificate, person, DEATH_CHARS / 2, ret);
}

bool death_read_line(const char *text, size_t n, char ret[DEATH_CHARS + 1])
{
    const size_t before = sizeof(DEATH_LINE_PREFIX) - 1;
    if (n < before + DEATH_CHARS + 1 || memcmp(text, DEATH_LINE_PREFIX, before) != 0 ||
        text[before + DEATH_CHARS] != '\n') {
        return false;
    }
    memcpy(ret, text + before, DEATH_CHARS);
    ret[DEATH_CHARS] = '\0';
    return strspn(ret, "0123456789abcdef") == DEATH_CHARS;
}
