/* agent/output/log_place.h: names of a trainer's log files below --log-dir. */
#ifndef TFE_AGENT_OUTPUT_LOG_PLACE_H
#define TFE_AGENT_OUTPUT_LOG_PLACE_H

#include <stdint.h>

#include "common/base/id.h"

enum log_stream { LOG_STDOUT, LOG_STDERR, LOG_STREAMS };

/* Maximum size of a replica name such as "ps-0", with NUL. */
#define OUTPUT_NAME_MAX 24

/* Identifies the stream that a log file belongs to. */
struct log_place {
    struct tfe_id job;
    uint32_t run;
    uint64_t epoch;
    uint32_t rank;
    char name[OUTPUT_NAME_MAX]; /* replica name ("ps-0"), or "" to use the rank */
    enum log_stream stream;
};

/* Sizes with NUL of "JOB/run-N/epoch-E", and of "rank-R-AGAIN.stdout.old" or
 * "worker-3-AGAIN.stdout". */
#define LOG_FOLDER_MAX (TFE_ID_MAX + 48)
#define LOG_NAME_MAX 48

/* Symbolic link DIR/JOB/latest to the directory of the newest epoch. */
#define LOG_LATEST "latest"
/* Suffix of files that --log-max-bytes has rotated. */
#define LOG_OLD ".old"

#endif
