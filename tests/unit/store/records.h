/* tests/unit/store/records.h: sample records for a store, and the stored content as text. */
#ifndef TFE_TESTS_UNIT_STORE_RECORDS_H
#define TFE_TESTS_UNIT_STORE_RECORDS_H

#include <stdio.h>
#include <string.h>

#include "server/store/store.h"
#include "tests/unit/test_runner.h"

#define NOW ((struct tfe_wall){.ms = 1000000})

/* Storage for one record with two members of two processes each. */
struct sample {
    struct rdzv_record record;
    struct rdzv_member members[2];
    uint16_t ports[2][2];
    char nodes[2][32];
    struct tfe_id known_to[3];
};

/* Fills a record; every field depends on the epoch, so that a mix-up of two epochs is detected. */
const struct rdzv_record *a_record(struct sample *s, const char *job, uint64_t epoch,
                                   uint64_t predecessor, uint64_t sequence);

/* Content that a store has returned: one line per job. */
struct heard {
    char text[16384];
    int fail_with;
};

int hear(void *ctx, const struct rdzv_record *r, const char *fault);

/* Returns a ledger row with only the epoch and default values. */
struct msg_epoch_row a_row(uint64_t epoch);

/* Returns the ledger rows of a job with epochs above `after`, at most max. */
const char *ledger_of(struct store *store, const char *job, uint64_t after, uint32_t max,
                      struct heard *heard);

/* Returns all records of the store as text. */
const char *all_of(struct store *store, struct heard *heard);

/* Returns the text that the load callback writes for this record. */
const char *text_of(struct heard *heard, const struct rdzv_record *record);

/* Progress callback for store_backup that never cancels. */
bool to_its_end(void *ctx);

/* Packs a record and calls store_put. */
int put_record(struct store *store, const struct rdzv_record *record, struct tfe_reason *reason);

/* Writes one record in one transaction. */
int put(struct store *store, const struct rdzv_record *record, struct tfe_reason *reason);

#endif
