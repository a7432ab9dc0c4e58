/* common/message/principal.h: the identity of a session, as proved by its handshake, and the one
 * function that decides what it may do. Pure. */
#ifndef TFE_COMMON_MESSAGE_PRINCIPAL_H
#define TFE_COMMON_MESSAGE_PRINCIPAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

#define PRINCIPAL_KEY_ID_BYTES 16

/* What the peer authenticated with. */
enum principal_kind { PRINCIPAL_BY_TOKEN = 1, PRINCIPAL_BY_NODE_KEY };

/* Roles; the values are on the wire, within the key id of a token. */
enum principal_role { PRINCIPAL_AGENT = 1, PRINCIPAL_OBSERVER = 2, PRINCIPAL_ADMIN = 3 };

/* Scope of a key that permits every job. */
#define PRINCIPAL_EVERY_JOB "*"

/* Identity and rights of a peer. A value type; the scope of a copy is borrowed from the
 * original. */
struct principal {
    uint8_t key_id[PRINCIPAL_KEY_ID_BYTES]; /* id of the key; not secret */
    /* Key id of the token with which the peer first connected; equal to key_id if it uses a
     * token. */
    uint8_t origin[PRINCIPAL_KEY_ID_BYTES];
    enum principal_kind kind;
    enum principal_role role;
    uint8_t generation;      /* generation of the root key from which its secret is derived */
    bool is_stored;          /* valid only while the server stores a record of it */
    struct tfe_wall expires; /* expiry; ms 0 for never */
    const char *scope;       /* pattern of the permitted jobs; '*' matches any run of characters */
};

/* Returns "agent", "observer", "admin", or "?". */
const char *principal_role_name(enum principal_role role);

/* True if the key has expired at `now`. */
bool principal_has_expired(const struct principal *by, struct tfe_wall now);

/* Returns a static sentence for the peer that says why `by` must not send a message of this type
 * about job, or NULL if it may. job is NULL if the message names none; if the message concerns one
 * job all the same (an order about a node, each job of a response), the caller asks again once the
 * job is known. */
const char *principal_fault(const struct principal *by, enum tfe_msg_type type, const char *job);

#endif
