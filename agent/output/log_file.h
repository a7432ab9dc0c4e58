/* agent/output/log_file.h: creates, writes and rotates one log file. Blocks; used on the
 * writer's thread only. */
#ifndef TFE_AGENT_OUTPUT_LOG_FILE_H
#define TFE_AGENT_OUTPUT_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/log_place.h"
#include "common/text/reason.h"

/* Lines that are missing in a file. */
struct log_loss {
    uint64_t lines;
    bool mid_line; /* the loss ended within a line; the rest of that line is discarded as well */
};

struct log_file {
    const char *root;   /* value of --log-dir; borrowed */
    uint64_t max_bytes; /* size limit of a file; 0 for no limit */
    struct log_place place;
    int fd;     /* -1 if not open, or if opening failed and will be retried */
    int folder; /* descriptor of the file's directory, or -1 */
    char name[LOG_NAME_MAX];
    uint64_t size;
    bool mid_line;        /* the last write did not end with a newline */
    struct log_loss lost; /* since the last successful write */
    uint64_t failed;      /* lines that could not be written, in total */
};

/* Initialises a file, which the first call of log_file_write creates. */
void log_file_init(struct log_file *file, const char *root, uint64_t max_bytes,
                   const struct log_place *place);
void log_file_done(struct log_file *file);

/* Appends bytes to the file. Opens it first if necessary: creates its directories below root and
 * a new file, never an existing one. When the file would exceed max_bytes (0 for no limit) it is
 * renamed to ".old", replacing the previous one, preferably between two lines. lost_before are
 * the lines lost since the last call. Lines that cannot be written are counted, and
 * the next successful call notes them in the file. Returns false with reason set if not
 * everything was written. */
bool log_file_write(struct log_file *file, struct log_loss lost_before, const char *bytes, size_t n,
                    struct tfe_reason *reason);

/* Updates the modification time, so that pruning by other agents spares a file in use. */
void log_file_touch(const struct log_file *file);

/* Creates the missing directories of path (mode 0700) and opens the last one, which must not be
 * a symbolic link. Returns a descriptor, or -1 with errno set; path is unchanged. */
int log_file_folders(char *path);

#endif
