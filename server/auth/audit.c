/* server/auth/audit.c: records orders and refusals in the audit log. */
#include "server/auth/audit.h"

#include <stdio.h>

#include "common/base/clock.h"
#include "common/cli/log.h"
#include "common/handshake/token.h"

void audit_record(struct writer *writer, const struct audit_client *who, const char *what,
                  const char *about, const char *result)
{
    char peer[ENDPOINT_TEXT_MAX];
    char key[MSG_KEY_HEX + 1] = "";
    char cut[MSG_AUDIT_ABOUT_MAX];
    if (who->by) {
        token_id_text(who->by->key_id, key);
    }
    (void)snprintf(cut, sizeof(cut), "%s", about);
    for (char *c = cut; *c != '\0'; c++) {
        *c = (unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c; /* keeps the row on one line */
    }
    const struct tfe_msg row = {.type = MSG_AUDIT_ROW,
                                .u.audit_row = {.at = clock_wall(),
                                                .key = key,
                                                .label = who->label,
                                                .from = peer_text(who->from, peer),
                                                .what = what,
                                                .about = cut,
                                                .result = result,
                                                .hash = ""}};
    if (writer_put(writer, &row, NULL, NULL, NULL) != 0) {
        log_warn("audit_lost", LOG_S("what", what));
    }
}

const char *audit_about(const struct tfe_msg *order, char buf[MSG_AUDIT_ABOUT_MAX])
{
    switch ((int)order->type) {
    case MSG_DRAIN:
        return order->u.drain.node;
    case MSG_EVICT:
        return order->u.evict.node;
    case MSG_REVOKE_AGENT:
        return order->u.revoke_agent.node;
    case MSG_UNBAN:
        return order->u.unban.node;
    case MSG_GROW:
    case MSG_FORGET:
    case MSG_SUBMIT:
    case MSG_SUSPEND:
    case MSG_RESUME:
    case MSG_CANCEL:
    case MSG_RERUN:
        return msg_job(order);
    case MSG_SCALE:
        (void)snprintf(buf, MSG_AUDIT_ABOUT_MAX,
                       order->u.scale.n_ps == MSG_UNSET ? "%s to %u:%u" : "%s to %u:%u, %u ps",
                       order->u.scale.job, (unsigned)order->u.scale.min_nodes,
                       (unsigned)order->u.scale.max_nodes, (unsigned)order->u.scale.n_ps);
        return buf;
    case MSG_BUNDLE_HAVE:
        return order->u.bundle_have.digest;
    case MSG_BACKUP:
        return order->u.backup.name;
    case MSG_TOKEN_REVOKE:
        return order->u.token_revoke.key;
    case MSG_TOKEN_ROTATE:
        return msg_rotation_name(order->u.token_rotate.step);
    case MSG_TOKEN_CREATE: {
        const struct msg_token_create *request = &order->u.token_create;
        int n = snprintf(buf, MSG_AUDIT_ABOUT_MAX, "%s for %s, label \"%s\"",
                         principal_role_name((enum principal_role)request->role), request->scope,
                         request->label);
        if (request->quota > 0 && n > 0 && (size_t)n < MSG_AUDIT_ABOUT_MAX) {
            (void)snprintf(buf + n, MSG_AUDIT_ABOUT_MAX - (size_t)n, ", quota %u",
                           (unsigned)request->quota);
        }
        return buf;
    }
    }
    return NULL;
}

const char *audit_result(const struct tfe_msg *response)
{
    return response->type == MSG_REFUSED ? msg_refusal_name(response->u.refused.code) : "done";
}
