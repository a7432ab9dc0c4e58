/* server/core/version.c: refuses nodes whose TensorFlow version differs from that of the job's
 * other nodes. */
#include "server/core/version.h"

#include <string.h>

#include "common/base/text.h"
#include "server/core/job.h"
#include "server/core/presence.h"

static void refuse(struct rdzv *r, struct node *node, const char *other, const char *own)
{
    uint32_t session = node->session.number;
    text_setf(r->sentence, sizeof(r->sentence),
              "job %s has TensorFlow %s on its other nodes, this one has %s: all of a job need the "
              "same",
              node->job->name.text, other, own);
    send_trace(r, TRACE_NODE_REFUSED, node->job, node, REFUSAL_VERSION_MISMATCH, r->sentence);
    if (session != NO_SESSION) {
        send_refused(r, session, REFUSAL_VERSION_MISMATCH, r->sentence);
    }
    node_remove(r, node);
    if (session != NO_SESSION) {
        send_close(r, session);
    }
}

/* Refuses newcomers in favour of the members, which already train: after a restart a newcomer may
 * have joined before them. Returns false if some member has the other version too. */
static bool members_go_first(struct rdzv *r, struct job *job, const char *text)
{
    struct tfe_id theirs = job->version.text;
    struct node *node;
    struct node *next;
    RB_FOREACH(node, node_tree, &job->nodes)
    {
        if (node->has_version && node_is_member(node)) {
            return false;
        }
    }
    RB_FOREACH_SAFE(node, node_tree, &job->nodes, next)
    {
        if (node->has_version) {
            refuse(r, node, text, theirs.text);
        }
    }
    return true;
}

bool version_take(struct rdzv *r, struct node *node, const char *text)
{
    struct job *job = node->job;
    if (!text || (node->has_version && strcmp(text, job->version.text.text) == 0)) {
        return false;
    }
    if (node->has_version) { /* the node's installation has changed */
        node->has_version = false;
        version_leave(&job->version);
    }
    if (job->version.n_nodes > 0 && strcmp(text, job->version.text.text) != 0 &&
        !(epoch_engages(job, node) && members_go_first(r, job, text))) {
        refuse(r, node, job->version.text.text, text);
        return true;
    }
    if (job->version.n_nodes == 0) {
        (void)id_set(&job->version.text, text); /* valid, as it was checked when it came */
    }
    job->version.n_nodes++;
    node->has_version = true;
    return false;
}
