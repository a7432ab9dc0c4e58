/* server/store/job_record.h: a record of a job (server/core/rdzv.h) as bytes. */
#ifndef TFE_SERVER_STORE_JOB_RECORD_H
#define TFE_SERVER_STORE_JOB_RECORD_H

#include "common/base/id.h"
#include "server/core/rdzv.h"

/* A packed record, with what the store has to know of it. */
struct store_record {
    struct tfe_id job;
    uint64_t sequence, predecessor, epoch;
    uint32_t run, n_members;
    enum tfe_cause cause;
    bool gone, over;
    size_t n;
    uint8_t bytes[];
};

/* One block for free(3); NULL: out of memory. */
struct store_record *record_pack(const struct rdzv_record *record);

/* Unpacks a record into one block for free(3), which borrows its texts from job and bytes. *ret is
 * NULL on an error. TFE_EINVAL: the bytes are no record; TFE_ENOMEM. */
int record_unpack(const char *job, const uint8_t *bytes, size_t n,
                  struct rdzv_record **ret) TFE_MUST_CHECK;

#endif
