/* server/auth/deny_list.c: evicted nodes, by key and label. */
#include "server/auth/deny_list.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/channel/admission.h"
#include "common/handshake/token.h"
#include "common/records/schemas.h"

struct entry {
    struct msg_ban_row *row;
    struct admission_slot slot;
};

struct deny_list {
    struct admission *admission; /* entries by the operator that has evicted the node */
    uint32_t n;
    struct entry *v[DENY_LIST_MAX + 1]; /* oldest first */
};

int deny_list_new(struct deny_list **ret)
{
    const struct admission_config config = {
        .capacity = DENY_LIST_MAX, .quota_max = DENY_LIST_MAX, .evicts_oldest = true};
    struct deny_list *bans = calloc(1, sizeof(*bans));
    if (!bans || admission_new(&config, &bans->admission) != 0) {
        free(bans);
        return TFE_ENOMEM;
    }
    *ret = bans;
    return 0;
}

static void remove_at(struct deny_list *bans, uint32_t i)
{
    struct entry *entry = bans->v[i];
    admission_leave(bans->admission, &entry->slot);
    free(entry->row);
    free(entry);
    bans->n--;
    memmove(bans->v + i, bans->v + i + 1, (bans->n - i) * sizeof(struct entry *));
}

void deny_list_free(struct deny_list *bans)
{
    if (!bans) {
        return;
    }
    while (bans->n > 0) {
        remove_at(bans, bans->n - 1);
    }
    admission_free(bans->admission);
    free(bans);
}

void deny_list_remove(struct deny_list *bans, const struct msg_ban_row *row)
{
    for (uint32_t i = 0; i < bans->n; i++) {
        if (bans->v[i]->row == row) {
            remove_at(bans, i);
            return;
        }
    }
}

int deny_list_add(struct deny_list *bans, const struct msg_ban_row *row, const struct principal *by)
{
    const struct admission_claim unknown = {.by = {[ADMISSION_KEY] = {"", 1}}, .cost = 1};
    const struct admission_claim claim = by ? admission_claim_of(by, 1) : unknown;
    struct msg_ban_row *copy = record_copy(&schema_ban_row, row);
    struct entry *entry = calloc(1, sizeof(*entry));
    if (!copy || !entry || admission_enter(bans->admission, &claim, entry, &entry->slot) != 0) {
        free(copy);
        free(entry);
        return TFE_ENOMEM;
    }
    entry->row = copy;
    for (uint32_t i = 0; i < bans->n; i++) {
        if (strcmp(bans->v[i]->row->job, row->job) == 0 &&
            strcmp(bans->v[i]->row->node, row->node) == 0) {
            remove_at(bans, i);
            break;
        }
    }
    bans->v[bans->n++] = entry;
    const struct admission_slot *evicted =
        admission_next_eviction(bans->admission, &entry->slot, NULL);
    for (uint32_t i = 0; evicted && i < bans->n; i++) {
        if (bans->v[i] == evicted->owner) {
            remove_at(bans, i);
            break;
        }
    }
    return 0;
}

const struct msg_ban_row *deny_list_at(const struct deny_list *bans, uint32_t i)
{
    return i < bans->n ? bans->v[bans->n - 1 - i]->row : NULL;
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
