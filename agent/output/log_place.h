/* agent/output/log_place.h: builds and parses the names of log files below --log-dir:
 * JOB/run-N/epoch-E/OWNER[-AGAIN].stdout[.old] */
#ifndef TFE_AGENT_OUTPUT_LOG_PLACE_H
#define TFE_AGENT_OUTPUT_LOG_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/id.h"
#include "common/message/msg.h"

/* Maximum size of an owner, "rank-3" or a replica name such as "ps-0", with NUL. */
#define OUTPUT_NAME_MAX 24

/* Identifies the stream that a log file belongs to. */
struct log_place {
    struct tfe_id job;
    uint32_t run;
    uint64_t epoch;
    char owner[OUTPUT_NAME_MAX];
    enum tfe_stream stream;
};

/* Sizes with NUL of "JOB/run-N/epoch-E", and of a file name. */
#define LOG_FOLDER_MAX (TFE_ID_MAX + 48)
#define LOG_NAME_MAX 56

/* Symbolic link DIR/JOB/latest to the directory of the newest epoch. */
#define LOG_LATEST "latest"
/* Suffix of files that --log-max-bytes has rotated. */
#define LOG_OLD ".old"

/* Builds "JOB/run-N/epoch-E". */
void log_place_folder(const struct log_place *place, char ret[LOG_FOLDER_MAX]);

/* Builds the name of a new file. If "rank-3.stdout" exists, again counts from 2:
 * "rank-3-2.stdout". */
void log_place_name(const struct log_place *place, unsigned again, char ret[LOG_NAME_MAX]);

/* Parses the name of a directory, "run-N" or "epoch-E", with the prefix "run-" or "epoch-". */
bool log_folder_parse(const char *name, const char *prefix, uint64_t *ret);

/* The parts of a file's name. */
struct log_name {
    char owner[OUTPUT_NAME_MAX];
    uint32_t index; /* number of the owner: 3 of "rank-3" */
    uint32_t again; /* 1 if the name has no such number */
    enum tfe_stream stream;
    bool is_old;
};

/* Parses the name of a file. Returns false for names that the agent does not create. */
bool log_name_parse(const char *name, struct log_name *ret);

#endif
