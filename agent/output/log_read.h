/* agent/output/log_read.h: log files read again, for who asks for more than memory has kept. Steps
 * block; they are for the writer's thread. */
#ifndef TFE_AGENT_OUTPUT_LOG_READ_H
#define TFE_AGENT_OUTPUT_LOG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/output/kept.h"
#include "agent/output/log_place.h"
#include "common/base/id.h"

/* Read at a time; a line that is longer is cut. */
#define LOG_READ_BYTES ((size_t)16 * 1024)

struct log_found;

/* The files of one epoch, one after the other. */
struct log_reader {
    TAILQ_ENTRY(log_reader) link; /* the writer's */
    /* Wish. */
    struct tfe_id job;
    uint64_t epoch;
    bool has_rank;
    uint32_t rank;
    uint32_t lines; /* the last so many of each stream; MSG_UNSET: all … */
    struct tfe_wall
        since; /* … of files that were written to after this; their lines have no times */
    struct kept_name *names; /* of own trainers in this epoch; owned … */
    size_t n_names;
    bool is_live; /* its trainers run: what is not yet a whole line will come otherwise */
    void (*on_read)(void *ctx);
    void *ctx;
    /* What the last step has found; the loop's while it is not busy. */
    struct kept_source of;
    char *bytes; /* whole lines */
    size_t n;
    bool done;
    bool busy;    /* a step is ordered, or under way */
    bool dropped; /* nobody waits for it any more */
    /* The thread's. */
    bool is_open;
    struct log_found *files;
    size_t n_files, at;
    int folder;
};

/* NULL: no memory. */
struct log_reader *log_reader_new(void);
/* It is not busy. NULL is allowed. */
void log_reader_free(struct log_reader *reader);

/* Reads on: bytes, or done. What cannot be read is passed over. */
void log_reader_step(struct log_reader *reader, const char *root);

#endif
