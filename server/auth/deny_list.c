/* server/auth/deny_list.c: evicted nodes, by key and label. */
#include "server/auth/deny_list.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/handshake/token.h"
#include "common/records/schemas.h"

struct deny_list {
    uint32_t n;
    struct msg_ban_row *v[DENY_LIST_MAX]; /* oldest first */
};

int deny_list_new(struct deny_list **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : TFE_ENOMEM;
}

void deny_list_free(struct deny_list *bans)
{
    for (uint32_t i = 0; bans && i < bans->n; i++) {
        free(bans->v[i]);
    }
    free(bans);
}

void deny_list_remove(struct deny_list *bans, const struct msg_ban_row *row)
{
    for (uint32_t i = 0; i < bans->n; i++) {
        if (bans->v[i] == row) {
            free(bans->v[i]);
            bans->n--;
            memmove(bans->v + i, bans->v + i + 1, (bans->n - i) * sizeof(struct msg_ban_row *));
            return;
        }
    }
}

/* Returns the oldest ban of this job or, if it has none, of all jobs: an operator of some jobs must
 * not be able to displace bans of others. */
static uint32_t first_of(const struct deny_list *bans, const char *job)
{
    uint32_t i = 0;
    while (i < bans->n && strcmp(bans->v[i]->job, job) != 0) {
        i++;
    }
    return i < bans->n ? i : 0;
}

int deny_list_add(struct deny_list *bans, const struct msg_ban_row *row)
{
    struct msg_ban_row *copy = record_copy(&schema_ban_row, row);
    if (!copy) {
        return TFE_ENOMEM;
    }
    for (uint32_t i = 0; i < bans->n; i++) {
        if (strcmp(bans->v[i]->job, row->job) == 0 && strcmp(bans->v[i]->node, row->node) == 0) {
            deny_list_remove(bans, bans->v[i]);
            break;
        }
    }
    if (bans->n == DENY_LIST_MAX) {
        deny_list_remove(bans, bans->v[first_of(bans, row->job)]);
    }
    bans->v[bans->n++] = copy;
    return 0;
}

const struct msg_ban_row *deny_list_at(const struct deny_list *bans, uint32_t i)
{
    return i < bans->n ? bans->v[bans->n - 1 - i] : NULL;
}

static bool is_key(const char *hex, const uint8_t id[PRINCIPAL_KEY_ID_BYTES])
{
    uint8_t banned[PRINCIPAL_KEY_ID_BYTES];
    size_t n = 0;
    return sodium_hex2bin(banned, sizeof(banned), hex, strlen(hex), NULL, &n, NULL) == 0 &&
           n == sizeof(banned) && token_compare(banned, id) == 0;
}

static bool is_on(const struct msg_ban_row *row, struct tfe_wall now)
{
    return row->until.ms > now.ms;
}

const struct msg_ban_row *deny_list_find(const struct deny_list *bans, const struct principal *by,
                                         const char *job, const char *node, const char *name,
                                         struct tfe_wall now)
{
    char token[MSG_KEY_HEX + 1];
    const bool has_own = by->kind == PRINCIPAL_BY_NODE_KEY;
    const struct msg_ban_row *row;
    token_id_text(by->origin, token);
    for (uint32_t i = 0; (row = deny_list_at(bans, i)) != NULL; i++) {
        const bool is_same =
            row->name[0] != '\0' && strcmp(row->name, name) == 0 && strcmp(row->token, token) == 0;
        if (is_on(row, now) && strcmp(row->job, job) == 0 &&
            (is_same || (has_own && is_key(row->key, by->key_id)) ||
             strcmp(row->node, node) == 0)) {
            return row;
        }
    }
    return NULL;
}

const struct msg_ban_row *deny_list_find_named(const struct deny_list *bans,
                                               const struct principal *by, const char *node,
                                               struct tfe_wall now)
{
    const struct msg_ban_row *row;
    for (uint32_t i = 0; (row = deny_list_at(bans, i)) != NULL; i++) {
        if (is_on(row, now) && (strcmp(row->node, node) == 0 || strcmp(row->name, node) == 0) &&
            !principal_fault(by, MSG_UNBAN, row->job)) {
            return row;
        }
    }
    return NULL;
}
