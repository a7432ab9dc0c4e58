/* server/core/on_notice.c: NOTICE: a node says that it will go away. */
#include "server/core/core.h"

int on_notice(struct rdzv *r, struct node *node, const struct msg_notice *notice)
{
    (void)r;
    (void)node;
    if (notice->kind < NOTICE_REBALANCE || notice->kind > NOTICE_OPERATOR) {
        return TFE_EINVAL;
    }
    return 0;
}
