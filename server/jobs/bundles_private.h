/* server/jobs/bundles_private.h: what the two files of the bundles share; nobody else's. */
#ifndef TFE_SERVER_JOBS_BUNDLES_PRIVATE_H
#define TFE_SERVER_JOBS_BUNDLES_PRIVATE_H

#include <event2/event_struct.h>
#include <limits.h>
#include <sys/queue.h>

#include "common/channel/admission.h"
#include "server/jobs/bundles.h"
#include "server/jobs/disk_worker.h"

#define BUNDLE_TAG_HEX 16
#define BUNDLE_NAME_MAX (MSG_BUNDLE_HEX + 1 + BUNDLE_TAG_HEX)
/* What comes is called so until it is whole. */
#define BUNDLE_PART "part-"

/* What a bundle that is stored or comes counts for: its scope, known by the tag in its name. */
struct bundle_places {
    struct admission_place by_count, by_bytes;
};

struct stored {
    LIST_ENTRY(stored) link;
    char name[BUNDLE_NAME_MAX + 1]; /* DIGEST-SCOPE */
    uint32_t size;
    struct tfe_wall used; /* brought, or seen to be named */
    struct bundle_places places;
};

struct upload;

struct bundles {
    struct bundles_config config;
    struct disk *disk;
    struct event timer;
    LIST_HEAD(, stored) stored;
    LIST_HEAD(, upload) uploads;
    struct admission *by_count, *by_bytes; /* of those that are stored or come, by scope */
    struct admission *slots;               /* of those that come, by key and scope */
    uint32_t last_part, n_looks;
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
/* Counts a bundle of this name; owner: the struct stored, NULL for one that comes. TFE_ENOMEM: it
 * counts for nobody. */
int bundle_enter(struct bundles *b, const char *name, uint32_t size, struct stored *owner,
                 struct bundle_places *ret) TFE_MUST_CHECK;
void bundle_leave(struct bundles *b, struct bundle_places *places);
/* Makes room for one that has entered, at the cost of bundles that no job names: of its own scope
 * if that has more than its share, else of the scope that has most. False: there is none. */
bool bundle_make_room(struct bundles *b, struct bundle_places *newest);
/* It is used now. */
void bundle_touch(struct stored *s);

/* What a server before this one has kept is known, what it did not finish is removed: once, before
 * the loop begins. TFE_ENOMEM. */
int bundles_find_kept(struct bundles *b) TFE_MUST_CHECK;
/* Those go that nobody has named for long. */
void bundles_drop_old(struct bundles *b);
/* Their files stay. */
void bundles_forget_all(struct bundles *b);

#endif
