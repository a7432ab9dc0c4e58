/* server/store/job_record.h: serialises the record of a job (server/core/rdzv.h). */
#ifndef TFE_SERVER_STORE_JOB_RECORD_H
#define TFE_SERVER_STORE_JOB_RECORD_H

#include "common/base/id.h"
#include "server/core/rdzv.h"

/* A serialised record, with the fields that the store itself needs. */
struct store_record {
    struct tfe_id job;
    uint64_t sequence, predecessor, epoch;
    uint32_t run, n_members;
    enum tfe_cause cause;
    bool gone, over;
    size_t n;
    uint8_t bytes[];
};

/* Serialises a record into one block for free(3). Returns NULL if out of memory. */
struct store_record *job_record_pack(const struct rdzv_record *record);

/* Deserialises a record into one block for free(3), which borrows texts from job and bytes. Returns
 * TFE_EINVAL if the bytes are not a record, or TFE_ENOMEM, with *ret NULL. */
int job_record_unpack(const char *job, const uint8_t *bytes, size_t n,
                      struct rdzv_record **ret) TFE_MUST_CHECK;

#endif
