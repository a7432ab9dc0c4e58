/* server/auth/deny_list.h: the deny list: nodes that an operator has evicted, by the key and label
 * that they used, and until when. In memory; the caller persists the rows. The core denies node
 * ids, this list the users of a key. */
#ifndef TFE_SERVER_AUTH_DENY_LIST_H
#define TFE_SERVER_AUTH_DENY_LIST_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/message/principal.h"

/* Maximum length, about 500 bytes per entry, searched at each JOIN. Beyond it the oldest entry of
 * the job is dropped or, if it has none, of all jobs. */
#define BANS_KEPT_MAX 1000

struct bans;

/* Makes an empty list. Returns 0 or TFE_ENOMEM. */
int bans_new(struct bans **ret) TFE_MUST_CHECK;
/* Frees the list. NULL is allowed. */
void bans_free(struct bans *bans);

/* Adds a copy of a row, replacing the one of the same job and node. Returns 0 or TFE_ENOMEM. */
int bans_take(struct bans *bans, const struct msg_ban_row *row) TFE_MUST_CHECK;

/* Returns the ban that applies to a node that joins a job, or NULL: by its own key (also if
 * renewed), by token and label (if both are known), or by node id. Rows are valid until the next
 * bans_take or bans_forget. */
const struct msg_ban_row *bans_find(const struct bans *bans, const struct principal *by,
                                    const char *job, const char *node, const char *name,
                                    struct tfe_wall now);

/* Returns the first ban of this node (by id or label) that `by` may lift, or NULL if there is
 * none. */
const struct msg_ban_row *bans_named(const struct bans *bans, const struct principal *by,
                                     const char *node, struct tfe_wall now);
void bans_forget(struct bans *bans, const struct msg_ban_row *row);

/* Returns the i-th ban, newest first, or NULL if there are fewer. */
const struct msg_ban_row *bans_at(const struct bans *bans, uint32_t i);

#endif
