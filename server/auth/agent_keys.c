/* server/auth/agent_keys.c: issues agents' own keys, and lists connected agents.
 *
 * The server stores no key: each agent presents its certificate. It stores only revocations
 * (rows_token_revoke), until the keys would have expired. */
#include <sodium.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/channel/channel.h"
#include "common/cli/log.h"
#include "server/query/operator.h"
#include "server/session.h"

/* --- issuing ---------------------------------------------------------------------------------- */

/* True if the session's key is valid for a long time yet, so that keys are not issued
 * needlessly. */
static bool is_too_early(const struct principal *by, struct tfe_wall now)
{
    return by->kind == PRINCIPAL_BY_NODE_KEY && by->expires.ms - now.ms > LIMIT_NODE_KEY_MS / 2;
}

void session_enroll(struct session *s, const struct msg_enrol *enrol)
{
    const struct peer_key from = peer_key(&s->peer);
    uint64_t unanswered;
    uint8_t public_key[32];
    char text[3][2 * MSG_CERTIFICATE_MAX + 1];
    const struct tfe_wall now = clock_wall();
    struct principal by = *s->by;
    struct token token;
    struct certificate certificate;
    if (is_too_early(&by, now) ||
        sodium_hex2bin(public_key, sizeof(public_key), enrol->public_key, strlen(enrol->public_key),
                       NULL, NULL, NULL) != 0 ||
        !throttle_pass(s->all->enrollments, &from, sizeof(from), &unanswered)) {
        return;
    }
    handshake_server_issue_key(s->all->handshake, public_key,
                               (struct tfe_wall){now.ms + LIMIT_NODE_KEY_MS}, &by, &token,
                               &certificate);
    token_id_text(token.key_id, text[0]);
    (void)sodium_bin2hex(text[1], sizeof(text[1]), token.secret, sizeof(token.secret));
    (void)sodium_bin2hex(text[2], sizeof(text[2]), certificate.bytes, certificate.n);
    const struct tfe_msg answer = {
        .type = MSG_ENROLLED,
        .u.enrolled = {
            .key = text[0], .secret = text[1], .certificate = text[2], .expires = by.expires}};
    session_audit(s, "ENROL", text[0], "done");
    int rc = channel_send(s->channel, &answer);
    sodium_memzero(text, sizeof(text));
    token_done(&token);
    if (rc == 0) {
        channel_identify(s->channel, &by);
        (void)session_check_token(s, now);
    } else if (!channel_ends_itself(rc)) {
        session_disconnect(s);
    }
}

/* --- list of agents --------------------------------------------------------------------------- */

struct agent_rows {
    struct rows rows;
    const struct sessions *all;
    const struct principal *by;
    uint32_t next;
    char key[MSG_KEY_HEX + 1];
    char token[MSG_KEY_HEX + 1];
    char from[ENDPOINT_TEXT_MAX];
};

/* Returns the next agent that r->by may see, or NULL. Agents that have joined no job are visible
 * only with the scope of every job. */
static const struct session *next_agent(struct agent_rows *r, struct rdzv_node *ret_node)
{
    const struct sessions *all = r->all;
    while (r->next < all->n_fresh) {
        const struct session *s = all->by_number[r->next++];
        if (!s || s->phase != SESSION_OPEN) {
            continue;
        }
        *ret_node = (struct rdzv_node){.job = NULL};
        if (rdzv_get_session_node(all->rdzv, s->number, ret_node) == 0
                ? !principal_fault(r->by, MSG_AGENTS, ret_node->job)
                : strcmp(r->by->scope, PRINCIPAL_EVERY_JOB) == 0) {
            return s;
        }
    }
    return NULL;
}

static int agents_next(struct rows *rows, struct tfe_msg *ret)
{
    struct agent_rows *r = (struct agent_rows *)rows;
    const struct sessions *all = r->all;
    struct rdzv_node node;
    const struct session *s = next_agent(r, &node);
    if (!s) {
        *ret = (struct tfe_msg){.type = MSG_STATUS_END};
        return 0;
    }
    bool has_joined = node.job != NULL;
    token_id_text(s->by->key_id, r->key);
    token_id_text(s->by->origin, r->token);
    *ret = (struct tfe_msg){
        .type = MSG_AGENT_ROW,
        .u.agent_row = {.key = r->key,
                        .token = r->token,
                        .label = keyring_label(keys_ring(all->keys), s->by->origin),
                        .jobs = s->by->scope,
                        .from = peer_text(&s->peer, r->from),
                        .enrolled = s->by->kind == PRINCIPAL_BY_NODE_KEY,
                        .node = has_joined ? node.node : "",
                        .name = has_joined ? node.name : "",
                        .job = has_joined ? node.job : "",
                        .expires = s->by->expires}};
    return 0;
}

int rows_agents(const struct sessions *all, const struct principal *by, struct rows **ret)
{
    static const struct rows_ops ops = {.next = agents_next};
    struct agent_rows *r = rows_new(&ops, sizeof(*r), ret);
    if (!r) {
        return TFE_ENOMEM;
    }
    r->all = all;
    r->by = by;
    return 0;
}
