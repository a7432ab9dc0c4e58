/* server/store/record.h: records that outlive the step of the core that made them. Pure. */
#ifndef TFE_SERVER_STORE_RECORD_H
#define TFE_SERVER_STORE_RECORD_H

#include "server/core/rdzv.h"

/* A copy of the record and of all it points to, in one block: free() gives it back. NULL: out of
 * memory. */
struct rdzv_record *record_copy(const struct rdzv_record *record) TFE_MUST_CHECK;

/* Whether what is kept of a job may be replaced by the record: it is the predecessor that the
 * record names, or an earlier try or record of the same server process (is_ours), whose answer the
 * core had not heard yet when it asked for this one. */
bool record_may_replace(const struct rdzv_record *record, uint64_t kept_epoch,
                        uint64_t kept_sequence, bool is_ours);

#endif
