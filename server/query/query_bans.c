/* server/query/query_bans.c: lists the entries of the deny list. */
#include <stdlib.h>

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

static void ban_rows_free(struct rows *rows)
{
    free(rows);
}

int rows_bans(const struct deny_list *bans, const struct principal *by, struct rows **ret)
{
    static const struct rows_ops ops = {.next = bans_next, .free = ban_rows_free};
    struct ban_rows *s = calloc(1, sizeof(*s));
    if (!s) {
        return TFE_ENOMEM;
    }
    *s = (struct ban_rows){.rows.ops = &ops, .bans = bans, .by = by};
    *ret = &s->rows;
    return 0;
}
