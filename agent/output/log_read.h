/* agent/output/log_read.h: reads log files for clients that request more than the ring
 * holds. Steps block; they run on the writer's thread. */
#ifndef TFE_AGENT_OUTPUT_LOG_READ_H
#define TFE_AGENT_OUTPUT_LOG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/output/log_place.h"
#include "agent/output/output_ring.h"
#include "common/base/id.h"

/* Maximum number of bytes per step; a longer line is split. */
#define LOG_READ_BYTES ((size_t)16 * 1024)

struct log_found;

/* Reads the files of one epoch one after the other. */
struct log_reader {
    struct msg_log_request spec; /* what to read; epoch is not 0. Lines of files have no times:
                                since selects files that were modified later. */
    struct output_name *names;   /* names of this agent's trainers in the epoch; owned */
    size_t n_names;
    /* the epoch's trainers are running, so an incomplete last line will be sent later */
    bool is_live;
    void (*on_read)(void *ctx);
    void *ctx;
    /* Result of the last step; valid in the event loop while busy is false. */
    struct output_source of;
    char *bytes; /* complete lines */
    size_t n;
    bool done;
    bool busy;    /* a step is queued or in progress */
    bool dropped; /* the client is gone; free the reader after the current step */
    /* State of the writer's thread. */
    bool is_open;
    struct log_found *files;
    size_t n_files, at;
    int folder;
};

/* Allocates a reader. Returns NULL if out of memory. */
struct log_reader *log_reader_new(void);
/* Frees a reader that is not busy. Accepts NULL. */
void log_reader_free(struct log_reader *reader);

/* Reads the next lines of the job's files into bytes, or sets done. Skips files that cannot be
 * read. */
void log_reader_step(struct log_reader *reader, const char *root, const struct tfe_id *job);

#endif
