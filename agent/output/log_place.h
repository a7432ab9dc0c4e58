/* agent/output/log_place.h: where a trainer's log lies under --log-dir, and which names are ours.
 * Pure. */
#ifndef TFE_AGENT_OUTPUT_LOG_PLACE_H
#define TFE_AGENT_OUTPUT_LOG_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"

enum log_stream { LOG_STDOUT, LOG_STDERR, LOG_STREAMS };

/* Whose stream it is. */
struct log_place {
    struct tfe_id job;
    uint32_t run;
    uint64_t epoch;
    uint32_t rank;
    enum log_stream stream;
};

/* "JOB/run-N/epoch-E", "rank-R-AGAIN.stdout.old": all with NUL. */
#define LOG_FOLDER_MAX (TFE_ID_MAX + 48)
#define LOG_NAME_MAX 48

/* DIR/JOB/latest leads to the folder of the newest epoch. */
#define LOG_LATEST "latest"
/* What --log-max-bytes has moved aside ends so. */
#define LOG_OLD ".old"

/* "JOB/run-N/epoch-E": the folder below --log-dir. */
void log_place_folder(const struct log_place *place, char ret[LOG_FOLDER_MAX]);

/* "rank-R.stdout"; where that is taken, "rank-R-2.stdout" and so on: again counts from 1. */
void log_place_name(const struct log_place *place, unsigned again, char ret[LOG_NAME_MAX]);

/* Whether a name is one that this module makes: only such are ever removed. */
bool log_name_is_run(const char *name);
bool log_name_is_epoch(const char *name);
bool log_name_is_file(const char *name);

#endif
