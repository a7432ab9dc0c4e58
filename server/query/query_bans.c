/* server/query/query_bans.c: lists the entries of the deny list. */
#include "common/base/clock.h"
#include "server/auth/deny_list.h"
#include "server/query/record_source.h"

struct ban_rows {
    struct rows rows;
    const struct deny_list *bans;
    const struct principal *by;
    uint32_t next;
};

static int bans_next(struct rows *rows, struct tfe_msg *ret)
{
    struct ban_rows *s = (struct ban_rows *)rows;
    const struct msg_ban_row *row;
    while ((row = deny_list_at(s->bans, s->next++)) != NULL) {
        if (row->until.ms > clock_wall().ms && !principal_fault(s->by, MSG_BANS, row->job)) {
            *ret = (struct tfe_msg){.type = MSG_BAN_ROW, .u.ban_row = *row};
            return 0;
        }
    }
    *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    return 0;
}

int rows_bans(const struct deny_list *bans, const struct principal *by, struct rows **ret)
{
    static const struct rows_ops ops = {.next = bans_next};
    struct ban_rows *s = rows_new(&ops, sizeof(*s), ret);
    if (!s) {
        return TFE_ENOMEM;
    }
    s->bans = bans;
    s->by = by;
    return 0;
}
