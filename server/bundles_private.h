/* server/bundles_private.h: what the two files of the bundles share; nobody else's. */
#ifndef TFE_SERVER_BUNDLES_PRIVATE_H
#define TFE_SERVER_BUNDLES_PRIVATE_H

#include <event2/event_struct.h>
#include <limits.h>
#include <sys/queue.h>

#include "server/bundles.h"
#include "server/disk.h"

#define BUNDLE_TAG_HEX 16
#define BUNDLE_NAME_MAX (MSG_BUNDLE_HEX + 1 + BUNDLE_TAG_HEX)
/* What comes is called so until it is whole. */
#define BUNDLE_PART "part-"

struct stored {
    LIST_ENTRY(stored) link;
    char name[BUNDLE_NAME_MAX + 1]; /* DIGEST-SCOPE */
    uint32_t size;
    struct tfe_wall used; /* brought, or seen to be named */
};

struct upload;

struct bundles {
    struct bundles_config config;
    struct disk *disk;
    struct event timer;
    LIST_HEAD(, stored) stored;
    LIST_HEAD(, upload) uploads;
    uint64_t size; /* of all that are stored */
    uint32_t n_stored, n_uploads, last_part;
};

void bundle_name(const char *digest, const struct principal *by, char ret[BUNDLE_NAME_MAX + 1]);
void bundle_path(const struct bundles *b, const char *name, char ret[PATH_MAX]);
/* Of who may name it; by NULL: of anybody. NULL: there is none. */
struct stored *bundle_find(const struct bundles *b, const char *digest, const struct principal *by);
/* False: no memory. One of that name is there already: nothing changes. */
bool bundle_add(struct bundles *b, const char *name, uint32_t size, struct tfe_wall used);
/* Closes fd, and removes the file of that name (NULL: none), beside the loop. */
void bundle_let_go(struct bundles *b, int fd, const char *name);
/* All that a job names are used now: that goes through all jobs for each. */
void bundles_see_named(struct bundles *b);
/* The one that was used first goes. False: all are new. Behind bundles_see_named, at once. */
bool bundle_make_room(struct bundles *b);

/* What a server before this one has kept is known, what it did not finish is removed: once, before
 * the loop begins. TFE_ENOMEM. */
int bundles_find_kept(struct bundles *b) TFE_MUST_CHECK;
/* Those go that nobody has named for long. */
void bundles_drop_old(struct bundles *b);
/* Their files stay. */
void bundles_forget_all(struct bundles *b);

#endif
