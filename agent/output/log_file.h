/* agent/output/log_file.h: one log file on disk: made, written, rotated. Blocks; for the writer's
 * thread. */
#ifndef TFE_AGENT_OUTPUT_LOG_FILE_H
#define TFE_AGENT_OUTPUT_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/log_place.h"
#include "common/base/reason.h"

struct log_file {
    int fd;     /* -1: not open (not yet, or it failed and is tried again) */
    int folder; /* its directory; -1 likewise */
    char name[LOG_NAME_MAX];
    uint64_t size;
    bool mid_line;   /* what was written last did not end a line */
    bool lost_mid;   /* what was lost last did not end a line: the rest of it is lost too */
    uint64_t lost;   /* lines, since the last that were written */
    uint64_t failed; /* lines that could not be written, in all */
};

void log_file_init(struct log_file *file);
void log_file_done(struct log_file *file);

/* Writes bytes behind what is there, opening the file (a fresh one, never one that exists) and its
 * folders below root where that has not been done. Longer than max_bytes (0: no limit) it is moved
 * aside (".old", the one before is given up) and begun anew, between two lines if there are any.
 * lost_before: lines that were lost since the last call. What cannot be written is counted, and the
 * next call that succeeds says so in the file. False with why: not all of it was written. */
bool log_file_write(struct log_file *file, const char *root, const struct log_place *place,
                    uint64_t max_bytes, uint64_t lost_before, const char *bytes, size_t n,
                    struct tfe_reason *reason);

/* Says that the file is in use, for whoever removes old ones. */
void log_file_touch(const struct log_file *file);

/* Makes every folder of the path that is not there (0700), and opens the last, which must not be a
 * link. -1 with errno; path is as it was. */
int log_file_folders(char *path);

/* Lines in bytes, one that is not ended counts. */
uint64_t log_file_lines(const char *bytes, size_t n);

#endif
