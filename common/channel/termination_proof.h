/* common/channel/termination_proof.h: a node's proof of termination: bytes whose disclosure proves
 * that all processes of the node have ended. */
#ifndef TFE_COMMON_CHANNEL_TERMINATION_PROOF_H
#define TFE_COMMON_CHANNEL_TERMINATION_PROOF_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/id.h"

/* Characters of a proof: 32 random bytes in lower-case hexadecimal. Only an agent and its guard
 * know them; the guard discloses them after the agent has ended and all its descendants are
 * reaped. */
#define PROOF_CHARS 64

/* Makes a new proof. Precondition: sodium_init. */
void proof_make(char ret[PROOF_CHARS + 1]);

/* Computes the hash that JOIN publishes and the server compares: personalised BLAKE2b-256, in
 * hexadecimal. Returns TFE_EINVAL if the proof is malformed. */
int proof_hash_of(const char *certificate, struct tfe_id *ret);

/* Format in which a guard discloses the proof, on its port and in its file: one line (PROTOCOL.md
 * section 9). */
#define PROOF_LINE_PREFIX "tfe1 dead "
#define PROOF_LINE_MAX (sizeof(PROOF_LINE_PREFIX) + PROOF_CHARS + 1)

/* True if the first n bytes of text are such a line; sets ret to its proof. */
bool proof_read_line(const char *text, size_t n, char ret[PROOF_CHARS + 1]);

#endif
