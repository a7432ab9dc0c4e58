/* server/auth/audit.h: writes down who ordered what, and who was turned away. */
#ifndef TFE_SERVER_AUTH_AUDIT_H
#define TFE_SERVER_AUTH_AUDIT_H

#include "common/message/msg.h"
#include "common/message/principal.h"
#include "server/peer.h"
#include "server/store/writer.h"

struct audit_who {
    const struct principal *by; /* NULL: nobody that showed a key */
    const char *label;          /* of the token that it came in with at first */
    const struct peer *from;
};

/* What there is no memory or no room for is lost, and logged. */
void audit_note(struct writer *writer, const struct audit_who *who, const char *what,
                const char *about, const char *result);

/* What an order is about, in room or in the message; NULL: the message is no order that changes
 * anything. */
const char *audit_about(const struct tfe_msg *order, char room[MSG_AUDIT_ABOUT_MAX]);

/* "done", or the name of the refusal. */
const char *audit_result(const struct tfe_msg *answer);

#endif
