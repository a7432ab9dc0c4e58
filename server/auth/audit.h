/* server/auth/audit.h: records orders and refusals in the audit log. */
#ifndef TFE_SERVER_AUTH_AUDIT_H
#define TFE_SERVER_AUTH_AUDIT_H

#include "common/channel/peer.h"
#include "common/message/msg.h"
#include "common/message/principal.h"
#include "server/store/writer.h"

struct audit_client {
    const struct principal *by; /* identity of the client; NULL if it has shown no key */
    const char *label;          /* label of the token with which the client first connected */
    const struct peer *from;
};

/* Queues an audit row. Logs a warning if it is lost for lack of memory or queue space. */
void audit_record(struct writer *writer, const struct audit_client *who, const char *what,
                  const char *about, const char *result);

/* Returns the subject of an order, in buf or borrowed from the message, or NULL if the message is
 * not an order that changes anything. */
const char *audit_about(const struct tfe_msg *order, char buf[MSG_AUDIT_ABOUT_MAX]);

/* Returns "done", or the name of the refusal. */
const char *audit_result(const struct tfe_msg *response);

#endif
