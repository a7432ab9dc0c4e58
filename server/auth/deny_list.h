/* server/auth/deny_list.h: whom an operator has evicted, by the key and label that they came with,
 * for how long. In memory; the caller keeps the rows. The core has the processes, this has who
 * starts them again. */
#ifndef TFE_SERVER_AUTH_DENY_LIST_H
#define TFE_SERVER_AUTH_DENY_LIST_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/message/principal.h"

/* Some 500 bytes each, and looked through with each JOIN; for one more the oldest of its job goes,
 * or of all, if it has none. */
#define BANS_KEPT_MAX 1000

struct bans;

/* TFE_ENOMEM. */
int bans_new(struct bans **ret) TFE_MUST_CHECK;
/* NULL is allowed. */
void bans_free(struct bans *bans);

/* Takes a row, in place of what is known of its job and node; copied. TFE_ENOMEM. */
int bans_take(struct bans *bans, const struct msg_ban_row *row) TFE_MUST_CHECK;

/* The ban that this newcomer of a job falls under: by its own key (also renewed), by the token that
 * it came with and its label (if both are known), or as the process itself; NULL: none. Rows live
 * until the next bans_take or bans_forget. */
const struct msg_ban_row *bans_find(const struct bans *bans, const struct principal *by,
                                    const char *job, const char *node, const char *name,
                                    struct tfe_wall now);

/* The first ban of this node (by id or label) that `by` may lift; NULL: none. */
const struct msg_ban_row *bans_named(const struct bans *bans, const struct principal *by,
                                     const char *node, struct tfe_wall now);
void bans_forget(struct bans *bans, const struct msg_ban_row *row);

/* The i-th, the newest first; NULL: there are not so many. */
const struct msg_ban_row *bans_at(const struct bans *bans, uint32_t i);

#endif
