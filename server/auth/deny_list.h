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
 * the operator that has most is dropped; an admin without scope loses none to others. */
#define DENY_LIST_MAX 1000

struct deny_list;

/* Makes an empty list. Returns 0 or TFE_ENOMEM. */
int deny_list_new(struct deny_list **ret) TFE_MUST_CHECK;
/* Frees the list. NULL is allowed. */
void deny_list_free(struct deny_list *bans);

/* Adds a copy of a row, replacing the one of the same job and node. by is the operator that has
 * evicted the node, NULL if unknown. Returns 0 or TFE_ENOMEM. */
int deny_list_add(struct deny_list *bans, const struct msg_ban_row *row,
                  const struct principal *by) TFE_MUST_CHECK;

/* Returns the ban that applies to a node that joins a job, or NULL: by its own key (also if
 * renewed), by token and label (if both are known), or by node id. Rows are valid until the next
 * deny_list_add or deny_list_remove. */
const struct msg_ban_row *deny_list_find(const struct deny_list *bans, const struct principal *by,
                                         const char *job, const char *node, const char *name,
                                         struct tfe_wall now);

/* Returns the first ban of this node (by id or label) that `by` may lift, or NULL if there is
 * none. */
const struct msg_ban_row *deny_list_find_named(const struct deny_list *bans,
                                               const struct principal *by, const char *node,
                                               struct tfe_wall now);
void deny_list_remove(struct deny_list *bans, const struct msg_ban_row *row);

/* Returns the i-th ban, newest first, or NULL if there are fewer. */
const struct msg_ban_row *deny_list_at(const struct deny_list *bans, uint32_t i);

#endif
