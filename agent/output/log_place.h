/* agent/output/log_place.h: where a trainer's log lies under --log-dir. */
#ifndef TFE_AGENT_OUTPUT_LOG_PLACE_H
#define TFE_AGENT_OUTPUT_LOG_PLACE_H

#include <stdint.h>

#include "common/base/id.h"

enum log_stream { LOG_STDOUT, LOG_STDERR, LOG_STREAMS };

/* Of a trainer in a job with roles. */
#define OUTPUT_NAME_MAX 24

/* Whose stream it is. */
struct log_place {
    struct tfe_id job;
    uint32_t run;
    uint64_t epoch;
    uint32_t rank;
    char name[OUTPUT_NAME_MAX]; /* "ps-0"; "": the rank says it */
    enum log_stream stream;
};

/* "JOB/run-N/epoch-E", "rank-R-AGAIN.stdout.old", "worker-3-AGAIN.stdout": all with NUL. */
#define LOG_FOLDER_MAX (TFE_ID_MAX + 48)
#define LOG_NAME_MAX 48

/* DIR/JOB/latest leads to the folder of the newest epoch. */
#define LOG_LATEST "latest"
/* What --log-max-bytes has moved aside ends so. */
#define LOG_OLD ".old"

#endif
