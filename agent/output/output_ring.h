/* agent/output/output_ring.h: the trainers' most recent output in the order in which the agent read
 * it. The console, the log files and each client of the server consume it with a cursor of their
 * own; a cursor that falls behind loses the oldest lines and is informed of the loss. */
#ifndef TFE_AGENT_OUTPUT_OUTPUT_RING_H
#define TFE_AGENT_OUTPUT_OUTPUT_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/output/log_place.h"
#include "common/message/msg.h"

/* Size in bytes: about 20,000 lines, or one second of output of a trainer that prints without
 * pause. */
#define OUTPUT_RING_BYTES ((size_t)2 * 1024 * 1024)

struct log_target;

/* Stream of a trainer in an epoch. */
struct output_source {
    uint64_t epoch;
    uint32_t rank;
    enum tfe_stream stream;
};

/* An open stream, and what its records have in common. Freed with its last record. */
struct output_stream {
    struct output_source of;
    char owner[OUTPUT_NAME_MAX]; /* replica name ("ps-0"), or "rank-R" */
    const char *label;           /* name before shown lines: the replica name, or "R" */
    bool is_shown;               /* the agent's own stdout or stderr shows the lines */
    struct log_target *file;     /* NULL if there is no log file */
    unsigned refs;
};

enum record_kind {
    RECORD_LINES, /* complete lines; the last one has no newline if the stream ended or the line was
                     too long */
    RECORD_PART,  /* the beginning of an unfinished line, for the log file only */
    RECORD_END,   /* the stream is closed; no bytes */
};

struct output_record {
    STAILQ_ENTRY(output_record) link;
    uint64_t start; /* number of bytes that were added to the ring before this record */
    struct output_stream *stream;
    struct tfe_wall at; /* when the agent read the last byte */
    enum record_kind kind;
    uint32_t n, lines;
    uint32_t n_in_part; /* number of leading bytes that earlier RECORD_PARTs contain */
    char bytes[];
};

/* Position of a consumer. */
struct output_cursor {
    LIST_ENTRY(output_cursor) link;
    const struct output_record *next; /* first record that is not consumed; NULL at the end */
    size_t offset;                    /* number of consumed bytes of that record */
    void (*on_more)(void *ctx);       /* called after a record was added */
    /* Called before the next record is dropped, of which the bytes from offset are lost. */
    void (*on_lost)(void *ctx, const struct output_record *record, size_t offset);
    void *ctx;
};

/* Name of a trainer. */
struct output_name {
    uint64_t epoch;
    uint32_t rank;
    char owner[OUTPUT_NAME_MAX];
};

/* Covers the last epochs even with MSG_NPROC_MAX trainers per node, and all
 * epochs of most nodes. */
#define OUTPUT_NAMES_MAX (4 * MSG_NPROC_MAX)

struct output_ring {
    STAILQ_HEAD(, output_record) records; /* oldest first */
    LIST_HEAD(, output_cursor) cursors;
    size_t used, max; /* bytes in use including headers, and their limit */
    uint64_t end;     /* number of bytes ever added */
    uint64_t newest;  /* newest epoch with output or open streams; 0 if none */
    uint64_t first;   /* first epoch with open streams; 0 if none */
    uint64_t dropped; /* newest epoch of which lines were dropped; 0 if none */
    uint32_t n_open;  /* number of open streams */
    struct output_name names[OUTPUT_NAMES_MAX]; /* circular */
    size_t n_names;                             /* number of names ever stored */
};

/* Initialises an empty ring. max is OUTPUT_RING_BYTES except in tests. */
void output_ring_init(struct output_ring *ring, size_t max);
void output_ring_done(struct output_ring *ring);

/* Opens a stream that is not shown and has no log file. name is the replica's name ("ps-0"), or
 * NULL. Returns NULL if out of memory. */
struct output_stream *output_ring_open(struct output_ring *ring, const struct output_source *of,
                                       const char *name);
/* Adds a RECORD_END and releases the stream. Accepts NULL. */
void output_ring_close(struct output_ring *ring, struct output_stream *stream);

/* Adds a record with a copy of bytes. Drops the oldest records while the ring exceeds its size or
 * memory is out. */
void output_ring_add(struct output_ring *ring, struct output_stream *stream, enum record_kind kind,
                     struct tfe_wall at, const char *bytes, size_t n, size_t n_in_part);

/* Registers a cursor at the given record, or at the end if it is NULL. */
void output_cursor_add(struct output_ring *ring, struct output_cursor *cursor,
                       const struct output_record *at);
void output_cursor_remove(struct output_cursor *cursor);
/* Moves the cursor to the next record. */
void output_cursor_advance(struct output_cursor *cursor);
/* Returns the number of bytes in the ring that the cursor has not consumed. */
size_t output_cursor_lag(const struct output_ring *ring, const struct output_cursor *cursor);

/* Returns the size of the first line including its newline, and its length without one. */
size_t output_line(const char *bytes, size_t n, size_t *ret_length);
/* Returns the number of lines, including an unterminated last one. */
uint32_t output_count_lines(const char *bytes, size_t n);
/* Returns the part of a line that a terminal shows after carriage returns, "30%" of
 * "10%\r20%\r30%", and updates its length. Carriage returns at the end remain. */
const char *output_visible(const char *line, size_t *n);

#endif
