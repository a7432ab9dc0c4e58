/* server/jobs/bundles_private.h: internals shared by bundles.c and bundles_stored.c. */
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
/* Prefix of the file name during an upload. */
#define BUNDLE_PART "part-"

/* Shares that a stored or uploaded bundle occupies, under the scope in its name. */
struct bundle_places {
    struct admission_slot by_count, by_bytes;
};

struct stored {
    LIST_ENTRY(stored) link;
    char name[BUNDLE_NAME_MAX + 1]; /* DIGEST-SCOPE */
    uint32_t size;
    struct tfe_wall used; /* time of the upload, or when a job was last seen to name it */
    struct bundle_places places;
};

struct upload;

struct bundles {
    struct bundles_config config;
    struct disk *disk;
    struct event timer;
    LIST_HEAD(, stored) stored;
    LIST_HEAD(, upload) uploads;
    struct admission *by_count, *by_bytes; /* shares of stored and uploaded bundles, by scope */
    struct admission *slots;               /* shares of uploads, by token and scope */
    uint32_t last_part, n_checks;
};

void bundle_name(const char *digest, const struct principal *by, char ret[BUNDLE_NAME_MAX + 1]);
void bundle_path(const struct bundles *b, const char *name, char ret[PATH_MAX]);
/* Finds a bundle that `by` may name; by NULL: any. Returns NULL if there is none. */
struct stored *bundle_find(const struct bundles *b, const char *digest, const struct principal *by);
/* Adds a stored bundle; does nothing if the name exists. Returns false if out of memory. */
bool bundle_add(struct bundles *b, const char *name, uint32_t size, struct tfe_wall used);
/* Closes fd and removes the file of that name (NULL: none), on the worker thread. */
void bundle_release(struct bundles *b, int fd, const char *name);
/* Updates the time of use of every bundle that a job names. Walks over all jobs for each bundle. */
void bundles_see_named(struct bundles *b);
/* Counts a bundle of this name; owner is the struct stored, NULL for an upload. Returns 0, or
 * TFE_ENOMEM without counting it. */
int bundle_enter(struct bundles *b, const char *name, uint32_t size, struct stored *owner,
                 struct bundle_places *ret) TFE_MUST_CHECK;
void bundle_leave(struct bundles *b, struct bundle_places *places);
/* Frees capacity for a bundle that has been counted, by removing bundles that no job names: from
 * its own scope if that exceeds its share, else from the largest scope. Returns false if none can
 * be removed. */
bool bundle_free_space(struct bundles *b, struct bundle_places *newest);
/* Sets the time of use to now. */
void bundle_touch(struct stored *s);

/* Adds the bundles of an earlier server and removes its unfinished uploads. Called once, before
 * the loop starts. Returns 0 or TFE_ENOMEM. */
int bundles_find_stored(struct bundles *b) TFE_MUST_CHECK;
/* Removes bundles that no job has named for long. */
void bundles_drop_old(struct bundles *b);
/* Frees the list; the files stay. */
void bundles_forget_all(struct bundles *b);

#endif
