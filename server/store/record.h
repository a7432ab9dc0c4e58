/* server/store/record.h: records that outlive what they point to. */
#ifndef TFE_SERVER_STORE_RECORD_H
#define TFE_SERVER_STORE_RECORD_H

#include "server/core/rdzv.h"

/* A copy of the record and of all it points to, in one block: free() gives it back. NULL: out of
 * memory. */
struct rdzv_record *record_copy(const struct rdzv_record *r);

#endif
