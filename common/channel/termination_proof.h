/* common/channel/termination_proof.h: a node's death certificate: bytes that prove that all it ran
 * has ended. */
#ifndef TFE_COMMON_CHANNEL_TERMINATION_PROOF_H
#define TFE_COMMON_CHANNEL_TERMINATION_PROOF_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/id.h"

/* 32 random bytes in lower-case hexadecimal. Only an agent and its guard know them, until the agent
 * is gone and the last of all that it had started is reaped: from then on whoever has them has
 * proven just that. */
#define PROOF_CHARS 64

/* Precondition: sodium_init. */
void proof_make(char ret[PROOF_CHARS + 1]);

/* What JOIN says of it, and what the server compares: BLAKE2b-256 of the bytes, personalised, in
 * hexadecimal. TFE_EINVAL: it is none. */
int proof_hash_of(const char *certificate, struct tfe_id *ret);

/* How a guard gives it, on its port and in its file: a line (PROTOCOL.md section 9). */
#define PROOF_LINE_PREFIX "tfe1 dead "
#define PROOF_LINE_MAX (sizeof(PROOF_LINE_PREFIX) + PROOF_CHARS + 1)

/* Whether the first n bytes of the text are such a line; ret is its certificate then. */
bool proof_read_line(const char *text, size_t n, char ret[PROOF_CHARS + 1]);

#endif
