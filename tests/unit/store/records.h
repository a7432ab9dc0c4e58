/* tests/unit/store/records.h: records to put into a store, and what a store gives back, as text. */
#ifndef TFE_TESTS_UNIT_STORE_RECORDS_H
#define TFE_TESTS_UNIT_STORE_RECORDS_H

#include <stdio.h>
#include <string.h>

#include "server/store/store.h"
#include "tests/unit/test_runner.h"

#define NOW ((struct tfe_wall){.ms = 1000000})

/* Memory of one record of two members with two processes each. */
struct sample {
    struct rdzv_record record;
    struct rdzv_member members[2];
    uint16_t ports[2][2];
    char nodes[2][32];
    struct tfe_id known_to[3];
};

/* The epoch's number tells every field, so that a mix-up of two epochs shows. */
const struct rdzv_record *a_record(struct sample *s, const char *job, uint64_t epoch,
                                   uint64_t predecessor, uint64_t sequence);

/* What a store gave back: one line a job. */
struct heard {
    char text[16384];
    int fail_with;
};

int hear(void *ctx, const struct rdzv_record *r, const char *fault);

/* A row of the ledger with only what is given here. */
struct msg_epoch_row a_row(uint64_t epoch);

/* The ledger of a job, at most max rows above `after`. */
const char *ledger_of(struct store *store, const char *job, uint64_t after, uint32_t max,
                      struct heard *heard);

/* All that the store keeps. */
const char *all_of(struct store *store, struct heard *heard);

/* What hear writes of these records. */
const char *text_of(struct heard *heard, const struct rdzv_record *record);

/* For store_backup: to its end. */
bool to_its_end(void *ctx);

/* store_put of a record that is packed first. */
int put_record(struct store *store, const struct rdzv_record *record, struct tfe_reason *reason);

/* One transaction with one record. */
int put(struct store *store, const struct rdzv_record *record, struct tfe_reason *reason);

#endif
