/* common/message/principal.h: who speaks on a session, as its handshake proved it, and the one
 * place that says what they may do. Pure. */
#ifndef TFE_COMMON_MESSAGE_PRINCIPAL_H
#define TFE_COMMON_MESSAGE_PRINCIPAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/message/msg.h"

#define PRINCIPAL_KEY_ID_BYTES 16

/* What somebody showed to be let in. */
enum principal_kind { PRINCIPAL_BY_TOKEN = 1, PRINCIPAL_BY_NODE_KEY };

/* Values are on the wire (inside a token's key id). */
enum principal_role { PRINCIPAL_AGENT = 1, PRINCIPAL_OBSERVER = 2, PRINCIPAL_ADMIN = 3 };

/* The scope of a key that opens every job. */
#define PRINCIPAL_EVERY_JOB "*"

/* A value; a copy's scope lives no longer than that of the first. */
struct principal {
    uint8_t key_id[PRINCIPAL_KEY_ID_BYTES]; /* tells keys apart; no secret */
    /* The token that it came in with at first; of a token its own id. */
    uint8_t origin[PRINCIPAL_KEY_ID_BYTES];
    enum principal_kind kind;
    enum principal_role role;
    uint8_t generation;      /* of the root that its secret follows from */
    bool is_kept;            /* only good as long as the server has a row of it */
    struct tfe_wall expires; /* ms 0: never */
    const char *scope;       /* pattern of the jobs it is good for; '*': any run of characters */
};

/* "agent", "observer", "admin", or "?" */
const char *principal_role_name(enum principal_role role);

/* Whether the key was good for so long only. */
bool principal_has_expired(const struct principal *by, struct tfe_wall now);

/* Why `by` may not send a message of this type about job. NULL: it may. A sentence for the peer,
 * static. job NULL: none is named. What concerns one job all the same is asked about again once
 * that one is known: an order about a node, each job of an answer. */
const char *principal_fault(const struct principal *by, enum tfe_msg_type type, const char *job);

#endif
