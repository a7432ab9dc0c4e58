/* common/credentials/node_secrets.h: the secrets of a node, which are published first by their
 * hash: one proves the node's id, the other (the proof of termination) is disclosed to prove that
 * all processes of the node have ended. Precondition of all functions: sodium_init. */
#ifndef TFE_COMMON_CREDENTIALS_NODE_SECRETS_H
#define TFE_COMMON_CREDENTIALS_NODE_SECRETS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/id.h"
#include "common/message/range.h"

/* Makes a new node secret: 32 random bytes in lower-case hexadecimal, as JOIN carries it. */
void node_secret_make(char ret[MSG_NODE_SECRET_CHARS + 1]);

/* Computes the id that the secret proves: BLAKE2b-128 of its bytes, in lower-case hexadecimal.
 * Returns TFE_EINVAL if the secret is malformed. */
int node_id_of(const char *secret, struct tfe_id *ret);

/* Sets the node's label: the wanted one, or this machine's host name made an id if wanted is NULL.
 * Precondition: wanted is NULL or a valid id. */
void node_label(const char *wanted, struct tfe_id *ret);

/* True if the secret proves the node id. */
bool node_id_is_proved(const char *id, const char *secret);

/* --- proof of termination --------------------------------------------------------------------- */

/* Characters of a proof: 32 random bytes in lower-case hexadecimal. Only an agent and its guard
 * know them; the guard discloses them after the agent has ended and all its descendants are
 * reaped. */
#define PROOF_CHARS 64

/* Makes a new proof. */
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
