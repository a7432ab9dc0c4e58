/* server/store/recover.h: what can still be read of a damaged SQLite store, in a new file. */
#ifndef TFE_SERVER_STORE_RECOVER_H
#define TFE_SERVER_STORE_RECOVER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/store/store.h"

struct recover_report {
    bool was_damaged;    /* else nothing below counts, and nothing was changed */
    uint32_t jobs;       /* salvaged */
    uint32_t dropped;    /* jobs that were read, but not whole; their agents can rebuild them */
    uint32_t rows;       /* of the ledger */
    char kept[PATH_MAX]; /* the damaged file's new name; its log lies beside it */
};

/* Looks whether the store in the file is whole, down to what takes_in (rdzv_restore) says of each
 * record. If it is not, salvages what can be read into a new file under its name, and keeps the old
 * one beside it. A file that is not there is whole. TFE_EDISK: it is not ours, of a newer tfe-rdzv,
 * or the disk does not take a new one; the file is as it was. TFE_ENOMEM. */
int sqlite_store_recover(const char *path, struct tfe_wall now, store_load_fn takes_in, void *ctx,
                         struct recover_report *ret, struct tfe_why *why) TFE_MUST_CHECK;

#endif
