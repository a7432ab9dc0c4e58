/* server/core/on_notice.c: NOTICE: a node's machine will go away, or the notice is withdrawn. */
#include "server/core/job.h"
#include "server/core/on.h"

int on_notice(struct rdzv *r, struct node *node, const struct msg_notice *notice)
{
    bool has_deadline = notice->deadline_ms != MSG_UNSET;
    if (notice->kind < NOTICE_REBALANCE || notice->kind > NOTICE_OPERATOR ||
        (has_deadline && notice->deadline_ms > MSG_DURATION_MAX_MS)) {
        return TFE_EINVAL;
    }
    if (notice->withdrawn) {
        notice_withdraw(r, node);
        return 0;
    }
    if (node->notice.kind != notice->kind) {
        send_trace(r, TRACE_NODE_NOTICED, node->job, node, has_deadline ? notice->deadline_ms : 0,
                   msg_notice_name(notice->kind))
            ->uncertain = notice->uncertain;
    }
    notice_set_interrupted(node, notice->interrupted);
    notice_apply(r, node, notice->kind, notice->deadline_ms);
    return 0;
}
