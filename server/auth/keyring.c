/* server/auth/keyring.c: records of tokens. */
#include "server/auth/keyring.h"

#include <bsd/sys/tree.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/clock.h"
#include "common/base/id.h"
#include "common/base/limits.h"
#include "common/records/schemas.h"
#include "server/scheduler/placement.h"

struct key {
    RB_ENTRY(key) link;
    uint8_t id[PRINCIPAL_KEY_ID_BYTES];
    struct msg_token_row *row;
    bool sets_quota; /* this key's quota applies: it is the newest key of its scope with a quota */
};
RB_HEAD(key_tree, key);

struct keyring {
    struct handshake_server *handshake;
    struct key_tree keys;
    uint32_t n;
    struct token_ring roots; /* root keys, generations only */
    int64_t keep_ms;
    void (*on_change)(void *ctx);
    void *on_change_ctx;
    keyring_quota_fn *on_quota;
    void *on_quota_ctx;
    struct tfe_wall latest;    /* latest time against which keys were checked */
    struct tfe_mono latest_at; /* monotonic time of that check */
};

_Static_assert(MSG_KEY_HEX == 2 * PRINCIPAL_KEY_ID_BYTES, "hexadecimal");
_Static_assert(MSG_KEY_USES_MAX *(TFE_ID_MAX / 2 + 1) <= MSG_KEY_NODES_MAX, "ids of 32 bytes");
_Static_assert(MSG_TOKEN_MAX == TOKEN_TEXT_MAX, "a token in a message");

static int compare(const struct key *a, const struct key *b)
{
    return token_compare(a->id, b->id);
}

RB_GENERATE_INTERNAL(key_tree, key, link, compare, __attribute__((unused)) static)

static struct key *find(const struct keyring *ring, const uint8_t id[PRINCIPAL_KEY_ID_BYTES])
{
    struct key wanted;
    memcpy(wanted.id, id, sizeof(wanted.id));
    struct key_tree *keys =
        (struct key_tree *)(uintptr_t)&ring->keys; /* tree.h does not support const */
    return RB_FIND(key_tree, keys, &wanted);
}

static bool read_id(const char *hex, uint8_t ret[PRINCIPAL_KEY_ID_BYTES])
{
    size_t n = 0;
    return sodium_hex2bin(ret, PRINCIPAL_KEY_ID_BYTES, hex, strnlen(hex, MSG_KEY_HEX + 1), NULL, &n,
                          NULL) == 0 &&
           n == PRINCIPAL_KEY_ID_BYTES;
}

/* --- quotas ----------------------------------------------------------------------------------- */

/* Returns the key whose quota applies to the scope, or NULL if none. */
static struct key *quota_key_of(struct keyring *ring, const char *scope)
{
    struct key *key;
    RB_FOREACH(key, key_tree, &ring->keys)
    {
        if (key->sets_quota && strcmp(key->row->scope, scope) == 0) {
            return key;
        }
    }
    return NULL;
}

static uint32_t nodes_of(const struct key *key)
{
    return key && key->row->quota < MSG_NODES_MAX ? key->row->quota : 0;
}

static void report_quota(struct keyring *ring, const char *scope)
{
    if (ring->on_quota) {
        ring->on_quota(ring->on_quota_ctx, scope, nodes_of(quota_key_of(ring, scope)));
    }
}

/* Decides whether a new key's quota replaces that of its scope. */
static void update_quota(struct keyring *ring, struct key *key)
{
    struct key *quota_key = key->row->quota > 0 ? quota_key_of(ring, key->row->scope) : NULL;
    if (key->row->quota > 0 && (!quota_key || quota_key->row->made.ms < key->row->made.ms)) {
        key->sets_quota = true;
        if (quota_key) {
            quota_key->sets_quota = false;
        }
        report_quota(ring, key->row->scope);
    }
}

static bool can_add_quota(struct keyring *ring, const struct msg_token_create *request)
{
    unsigned n = 0;
    struct key *key;
    RB_FOREACH(key, key_tree, &ring->keys)
    {
        n += key->sets_quota && nodes_of(key) > 0;
    }
    return request->quota == 0 || request->quota == MSG_NODES_MAX || n < PLACEMENT_QUOTAS_MAX ||
           nodes_of(quota_key_of(ring, request->scope)) > 0;
}

void keyring_watch_quotas(struct keyring *ring, keyring_quota_fn *fn, void *ctx)
{
    struct key *key;
    ring->on_quota = fn;
    ring->on_quota_ctx = ctx;
    RB_FOREACH(key, key_tree, &ring->keys)
    {
        if (fn && key->sets_quota && nodes_of(key) > 0) {
            fn(ctx, key->row->scope, nodes_of(key));
        }
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

/* Adds a key. Sets *ret_key to the key with this id, new or existing. */
static int add(struct keyring *ring, const struct msg_token_row *row, struct key **ret_key)
{
    uint8_t id[PRINCIPAL_KEY_ID_BYTES];
    if (!read_id(row->key, id) || strlen(row->scope) > MSG_SCOPE_MAX ||
        (row->label[0] != '\0' && !id_is_valid(row->label))) {
        return TFE_EINVAL;
    }
    *ret_key = find(ring, id);
    if (*ret_key) {
        return 0;
    }
    struct key *key = calloc(1, sizeof(*key));
    if (!key || !(key->row = record_copy(&schema_token_row, row))) {
        free(key);
        return TFE_ENOMEM;
    }
    memcpy(key->id, id, sizeof(key->id));
    const struct key *other = RB_INSERT(key_tree, &ring->keys, key);
    TFE_ASSERT(!other);
    ring->n++;
    update_quota(ring, key);
    *ret_key = key;
    return 0;
}

static void drop(struct keyring *ring, struct key *key)
{
    (void)RB_REMOVE(key_tree, &ring->keys, key);
    ring->n--;
    free(key->row);
    free(key);
}

/* Removes old keys as store_prune does. A revoked key that would be valid without a record is
 * retained. */
static void prune(struct keyring *ring, struct tfe_wall now)
{
    struct key *key, *next;
    RB_FOREACH_SAFE(key, key_tree, &ring->keys, next)
    {
        const int64_t revoked = token_is_stored(key->id) ? key->row->revoked.ms : 0;
        const int64_t expires = key->row->expires.ms;
        const int64_t before = now.ms - ring->keep_ms;
        if (ring->keep_ms > 0 && !key->sets_quota &&
            ((revoked != 0 && revoked < before) || (expires != 0 && expires < before))) {
            drop(ring, key);
        }
    }
}

static unsigned count_uses(const struct key *key)
{
    unsigned n = key->row->used_by[0] != '\0';
    for (const char *c = key->row->used_by; *c != '\0'; c++) {
        n += *c == ',';
    }
    return n;
}

/* True if keyring_expire revoked the key, not an operator. */
static bool has_ended_by_itself(const struct msg_token_row *row)
{
    return row->expires.ms != 0 && row->revoked.ms >= row->expires.ms;
}

/* Returns the time against which keys are checked. If the civil clock is set back, this time
 * continues with the monotonic clock, so that expired keys do not become valid again. */
static struct tfe_wall judged_time(struct keyring *ring, struct tfe_wall now)
{
    const struct tfe_mono mono = clock_mono();
    const int64_t due = ring->latest.ms + tfe_mono_sub(mono, ring->latest_at);
    if (ring->latest.ms != 0 && now.ms < due) {
        return (struct tfe_wall){due};
    }
    ring->latest = now;
    ring->latest_at = mono;
    return now;
}

/* Returns the state of a key for lists, one of the words of TOKEN_ROW. */
static const char *state_of(const struct keyring *ring, const struct msg_token_row *row,
                            struct tfe_wall now)
{
    if (row->revoked.ms != 0) {
        return has_ended_by_itself(row) ? "expired" : "revoked";
    }
    if (row->expires.ms != 0 && row->expires.ms <= now.ms) {
        return "expired";
    }
    return token_root_of(&ring->roots, (uint8_t)row->generation) ? "good" : "root removed";
}

const char *keyring_fault(struct keyring *ring, const struct principal *by, struct tfe_wall now)
{
    const struct key *key = find(ring, by->key_id);
    if (principal_has_expired(by, judged_time(ring, now)) ||
        (key && key->row->revoked.ms != 0 && has_ended_by_itself(key->row))) {
        return "this token has expired (ask the server's operator for a new one)";
    }
    if (!token_root_of(&ring->roots, by->generation)) {
        return "this token's root was removed (ask the server's operator for a new one)";
    }
    if (key && key->row->revoked.ms != 0) {
        return "this token was revoked by an operator";
    }
    return !key && by->is_stored ? "the server no longer knows this token" : NULL;
}

/* The judge of handshake_server_set_judge. */
static int judge(void *ctx, struct tfe_wall now, struct principal *by)
{
    struct keyring *ring = ctx;
    const struct key *key = find(ring, by->key_id);
    if (keyring_fault(ring, by, now)) {
        return TFE_EAUTH;
    }
    if (key) {
        by->scope = key->row->scope;
    }
    return 0;
}

void keyring_expire(struct keyring *ring, struct tfe_wall now,
                    void (*keep)(void *ctx, const struct msg_token_row *row), void *ctx)
{
    const struct tfe_wall judged = judged_time(ring, now);
    struct key *key;
    RB_FOREACH(key, key_tree, &ring->keys)
    {
        struct msg_token_row *row = key->row;
        if (token_is_stored(key->id) && row->expires.ms != 0 && row->revoked.ms == 0 &&
            row->expires.ms <= judged.ms) {
            row->revoked = row->expires;
            keep(ctx, row);
        }
    }
}

int keyring_new(struct handshake_server *handshake, int64_t keep_ms, struct keyring **ret)
{
    struct keyring *ring = calloc(1, sizeof(*ring));
    if (!ring) {
        return TFE_ENOMEM;
    }
    RB_INIT(&ring->keys);
    ring->handshake = handshake;
    ring->keep_ms = keep_ms;
    handshake_server_set_judge(handshake, judge, ring);
    *ret = ring;
    return 0;
}

void keyring_free(struct keyring *ring)
{
    struct key *key;
    if (!ring) {
        return;
    }
    handshake_server_set_judge(ring->handshake, NULL, NULL);
    while ((key = RB_MIN(key_tree, &ring->keys)) != NULL) {
        drop(ring, key);
    }
    free(ring);
}

static void changed(const struct keyring *ring)
{
    if (ring->on_change) {
        ring->on_change(ring->on_change_ctx);
    }
}

void keyring_set_roots(struct keyring *ring, const struct token_ring *roots)
{
    handshake_server_set_ring(ring->handshake, roots);
    ring->roots = (struct token_ring){.n = roots->n, .used = roots->used};
    for (unsigned i = 0; i < roots->n; i++) {
        ring->roots.v[i].generation = roots->v[i].generation;
    }
    changed(ring);
}

void keyring_watch(struct keyring *ring, void (*on_change)(void *ctx), void *ctx)
{
    ring->on_change = on_change;
    ring->on_change_ctx = ctx;
}

int keyring_add(struct keyring *ring, const struct msg_token_row *row)
{
    struct key *key;
    return add(ring, row, &key);
}

int keyring_make(struct keyring *ring, const struct msg_token_create *request, struct tfe_wall now,
                 struct token *ret, const struct msg_token_row **ret_row)
{
    char hex[MSG_KEY_HEX + 1];
    struct key *key;
    const struct token_config token = {.role = (enum principal_role)request->role,
                                       .uses = (uint8_t)request->uses,
                                       .is_stored = true,
                                       .expires.ms =
                                           request->ttl_ms ? now.ms + request->ttl_ms : 0};
    if (ring->n >= KEYRING_MAX) {
        prune(ring, now);
    }
    if (ring->n >= KEYRING_MAX) {
        return TFE_EFULL;
    }
    if (!can_add_quota(ring, request)) {
        return TFE_ETOOBIG;
    }
    handshake_server_mint(ring->handshake, &token, ret);
    token_id_text(ret->key_id, hex);
    const struct key *quota_key = request->quota > 0 ? quota_key_of(ring, request->scope) : NULL;
    /* Newest by definition, even if the clock went backwards. */
    const bool is_newest = !quota_key || quota_key->row->made.ms < now.ms;
    const struct msg_token_row row = {.key = hex,
                                      .role = request->role,
                                      .scope = request->scope,
                                      .label = request->label,
                                      .generation = token_generation(ret->key_id),
                                      .uses = request->uses,
                                      .used_by = "",
                                      .made.ms = is_newest ? now.ms : quota_key->row->made.ms + 1,
                                      .quota = request->quota,
                                      .expires = token_expiry(ret->key_id)};
    int rc = add(ring, &row, &key);
    if (rc != 0) {
        token_done(ret);
        return rc;
    }
    *ret_row = key->row;
    return 0;
}

void keyring_discard(struct keyring *ring, const char *hex)
{
    uint8_t id[PRINCIPAL_KEY_ID_BYTES];
    char scope[MSG_SCOPE_MAX + 1];
    struct key *other, *newest = NULL;
    struct key *key = read_id(hex, id) ? find(ring, id) : NULL;
    if (!key) {
        return;
    }
    const bool had_quota = key->sets_quota;
    (void)snprintf(scope, sizeof(scope), "%s", key->row->scope);
    drop(ring, key);
    if (!had_quota) {
        return;
    }
    RB_FOREACH(other, key_tree, &ring->keys)
    {
        if (other->row->quota > 0 && strcmp(other->row->scope, scope) == 0 &&
            (!newest || newest->row->made.ms < other->row->made.ms)) {
            newest = other;
        }
    }
    if (newest) {
        newest->sets_quota = true;
    }
    report_quota(ring, scope);
}

/* Returns when the record of a revocation may be deleted: once no token that it revokes can still
 * be valid. For a node key, that includes a renewal made just before the revocation. */
static struct tfe_wall end_of(const uint8_t id[PRINCIPAL_KEY_ID_BYTES], struct tfe_wall now)
{
    return token_is_node_key(id) ? (struct tfe_wall){now.ms + LIMIT_NODE_KEY_MS} : token_expiry(id);
}

/* Finds a key by id or, if there is none, by the label of a valid key. */
static int find_named(struct keyring *ring, const char *name, struct tfe_wall now,
                      struct key **ret_key)
{
    uint8_t id[PRINCIPAL_KEY_ID_BYTES];
    struct key *key;
    struct key *found = read_id(name, id) ? find(ring, id) : NULL;
    if (!found) {
        RB_FOREACH(key, key_tree, &ring->keys)
        {
            if (strcmp(key->row->label, name) != 0 ||
                strcmp(state_of(ring, key->row, now), "good")) {
                continue;
            }
            if (found) {
                return TFE_EEXIST;
            }
            found = key;
        }
    }
    *ret_key = found;
    return found ? 0 : TFE_ENOENT;
}

int keyring_revoke(struct keyring *ring, const char *name, struct tfe_wall now,
                   const struct msg_token_row **ret_row)
{
    uint8_t id[PRINCIPAL_KEY_ID_BYTES];
    struct key *key;
    int rc = find_named(ring, name, now, &key);
    if (rc == TFE_ENOENT && read_id(name, id) && !token_is_stored(id)) {
        if (ring->n >= 2 * KEYRING_MAX) {
            return TFE_EFULL;
        }
        /* A token of an earlier state directory, or an agent's own key. */
        char hex[MSG_KEY_HEX + 1];
        token_id_text(id, hex);
        const struct msg_token_row row = {.key = hex,
                                          .role = id[2] >= 1 && id[2] <= 3 ? id[2] : 1,
                                          .scope = PRINCIPAL_EVERY_JOB,
                                          .label = "",
                                          .generation = token_generation(id),
                                          .used_by = "",
                                          .expires = end_of(id, now)};
        rc = add(ring, &row, &key);
    }
    if (rc != 0) {
        return rc;
    }
    if (key->row->revoked.ms == 0) {
        key->row->revoked = now;
    }
    *ret_row = key->row;
    changed(ring);
    return 0;
}

static bool has_used(const struct key *key, const char *node)
{
    const char *at = strstr(key->row->used_by, node);
    return at && (at[strlen(node)] == ',' || at[strlen(node)] == '\0');
}

const char *keyring_use(struct keyring *ring, const struct principal *by, const char *node,
                        const struct msg_token_row **ret_row)
{
    struct key *key = find(ring, by->key_id);
    *ret_row = NULL;
    if (!key || key->row->uses == 0 || has_used(key, node)) {
        return NULL;
    }
    if (count_uses(key) >= key->row->uses) {
        return "this token's node limit is used up (ask the server's operator for a new one)";
    }
    char used_by[MSG_KEY_NODES_MAX + 1];
    struct msg_token_row next = *key->row;
    (void)snprintf(used_by, sizeof(used_by), "%s%s%s", next.used_by,
                   next.used_by[0] != '\0' ? "," : "", node);
    next.used_by = used_by;
    struct msg_token_row *row = record_copy(&schema_token_row, &next);
    if (!row) {
        return "the server is out of memory (try again later)";
    }
    free(key->row);
    key->row = row;
    *ret_row = key->row;
    return NULL;
}

const char *keyring_label(const struct keyring *ring, const uint8_t id[PRINCIPAL_KEY_ID_BYTES])
{
    const struct key *key = find(ring, id);
    return key ? key->row->label : "";
}

const struct msg_token_row *keyring_next(struct keyring *ring, const char *after,
                                         struct tfe_wall now)
{
    struct key *key;
    struct key wanted;
    if (!after) {
        prune(ring, now);
        key = RB_MIN(key_tree, &ring->keys);
    } else if (!read_id(after, wanted.id)) {
        return NULL;
    } else {
        key = RB_NFIND(key_tree, &ring->keys, &wanted);
        key = key && compare(key, &wanted) == 0 ? RB_NEXT(key_tree, &ring->keys, key) : key;
    }
    if (key) {
        key->row->state = state_of(ring, key->row, now);
        if (strcmp(key->row->state, "good") == 0 && key->row->uses > 0 &&
            count_uses(key) >= key->row->uses) {
            key->row->state = "used up";
        }
    }
    return key ? key->row : NULL;
}
