/* server/web/shares.h: limits the part of tfe-web's scarce resources that one key or one source
 * address can occupy (common/channel/admission.h).
 *
 * A caller with a token that the server has accepted counts for that token's key, every other
 * caller for its source address. An admin's token that the server derives from its root is good for
 * every job: its holder has no share and uses the reserve. tfe-web cannot see the scope of other
 * admin tokens, and gives them the share of any key. */
#ifndef TFE_SERVER_WEB_SHARES_H
#define TFE_SERVER_WEB_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/channel/admission.h"
#include "server/web/http.h"

struct shares;
struct token;

enum share_kind {
    SHARE_CALLS,   /* requests that wait for the server */
    SHARE_STREAMS, /* open event streams */
    SHARE_LOGINS,  /* sessions of browsers */
    SHARE_UPLOADS, /* bundles on their way to the server */
    SHARE_LOGS,    /* readers of logs: each has its own connection to the server */
    SHARE__COUNT
};

/* Entries of each kind, and how many of them are the reserve of unscoped admins. With the whole
 * capacity free, one holder gets a quarter of what is not reserved. */
#define SHARE_CALLS_MAX 256
#define SHARE_CALLS_RESERVE 16
#define SHARE_STREAMS_MAX 128
#define SHARE_STREAMS_RESERVE 8
#define SHARE_LOGINS_MAX 128
#define SHARE_UPLOADS_MAX 16 /* as many as the server takes (LIMIT_UPLOADS) */
#define SHARE_UPLOADS_RESERVE 4
#define SHARE_LOGS_MAX 48
#define SHARE_LOGS_RESERVE 8

/* Who an entry counts for. */
struct share_holder {
    const struct token *token; /* NULL if the server has not accepted a token of the caller */
    const uint8_t *source;     /* HTTP_SOURCE_BYTES; used if token is NULL */
};

/* One entry, embedded in the object that it counts; zeroed before it is used. */
struct share {
    struct shares *all; /* NULL if the entry counts for no holder */
    enum share_kind kind;
    struct admission_slot place;
    void *owner;
    void (*evict)(void *owner);
    bool is_fixed; /* evict is never called */
};

/* Creates the shares, all empty. Errors: TFE_ENOMEM. */
int shares_new(struct shares **ret) TFE_MUST_CHECK;
/* Every entry must have been released. NULL is allowed. */
void shares_free(struct shares *all);

/* Counts an entry for the holder. Where the capacity is exceeded, calls evict of the entries that
 * have to go, which must release them before it returns. Returns false, with the entry released, if
 * the holder's share is used up, if nothing may be evicted, or without memory. */
bool share_enter(struct shares *all, enum share_kind kind, const struct share_holder *holder,
                 void *owner, void (*evict)(void *owner), struct share *share);

/* Does nothing if the entry counts for no holder. */
void share_release(struct share *share);

/* Returns the number of entries of the kind. */
uint32_t shares_count(const struct shares *all, enum share_kind kind);

#endif
