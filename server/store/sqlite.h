/* server/store/sqlite.h: the store in one SQLite file, in WAL mode, synced at every commit. */
#ifndef TFE_SERVER_STORE_SQLITE_H
#define TFE_SERVER_STORE_SQLITE_H

#include <stdint.h>

#include "server/store/store.h"

/* Opens the file or makes it (mode 0600), checks it, brings its schema forward, and enters this
 * server's incarnation, so that an older server that still has it open can write no more. vfs: how
 * SQLite reaches the disk, NULL for its own. An error leaves the file as it
 * was, and why names it and the way out. TFE_EINVAL: it is damaged. TFE_EDISK: of another program,
 * of a newer tfe-rdzv, or not to be opened. TFE_ENOMEM. */
int sqlite_store_open(const char *path, uint64_t incarnation, struct tfe_wall now, const char *vfs,
                      struct store **ret, struct tfe_why *why) TFE_MUST_CHECK;

#endif
