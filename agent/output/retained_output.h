/* agent/output/retained_output.h: bounded in-memory buffer of the trainers' most recent output,
 * which clients read through the server. The oldest lines are dropped first; readers receive
 * the number of lines they missed. */
#ifndef TFE_AGENT_OUTPUT_RETAINED_OUTPUT_H
#define TFE_AGENT_OUTPUT_RETAINED_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/output/log_place.h"
#include "common/message/msg.h"

/* About 20,000 lines, or the last second of a trainer that prints without pause. */
#define RETAINED_BYTES_MAX ((size_t)2 * 1024 * 1024)

/* Trainer stream that printed some lines. */
struct output_source {
    uint64_t epoch;
    uint32_t rank;
    enum tfe_stream stream;
};

/* Complete lines of one source that were read in the same millisecond; each ends in '\n'. */
struct retained_piece {
    STAILQ_ENTRY(retained_piece) link;
    struct output_source of;
    struct tfe_wall at;
    uint32_t lines;
    size_t n; /* bytes used, up to MSG_LOG_TEXT_MAX + 1 */
    size_t cap;
    char bytes[];
};
STAILQ_HEAD(retained_pieces, retained_piece);

/* Display name of a trainer, which its log files also use. */
struct output_name {
    uint64_t epoch;
    uint32_t rank;
    char name[OUTPUT_NAME_MAX];
};

/* Covers the last epochs even with MSG_NPROC_MAX trainers per node, and all
 * epochs of most nodes. */
#define RETAINED_NAMES_MAX (4 * MSG_NPROC_MAX)

struct retained_output {
    struct retained_pieces pieces; /* oldest piece first */
    struct retained_piece *last;   /* newest piece, or NULL if there is none */
    size_t used, max;              /* bytes in use including headers, and their limit */
    uint64_t newest;               /* newest epoch with output or open streams; 0 if none */
    uint64_t first;                /* first epoch with open streams; 0 if none */
    uint64_t dropped;              /* newest epoch from which a piece was dropped; 0 if none */
    uint32_t open;                 /* number of open streams */
    bool sealed;                   /* the last piece has been read, so it must not grow */
    struct output_name names[RETAINED_NAMES_MAX]; /* ring buffer */
    size_t n_names;                               /* number of names ever written to the ring */
    /* Called after a piece is added and before one is dropped; NULL if there is no reader. */
    void (*on_more)(void *ctx, struct retained_piece *piece);
    void (*on_drop)(void *ctx, struct retained_piece *piece);
    void *ctx;
};

/* Initialises an empty buffer. max is RETAINED_BYTES_MAX except in tests. */
void retained_output_init(struct retained_output *k, size_t max);
void retained_output_done(struct retained_output *k);

/* Opens and closes a stream. name is the replica's name ("ps-0"), or NULL for "rank-R". */
void retained_output_open(struct retained_output *k, const struct output_source *of,
                          const char *name);
void retained_output_close(struct retained_output *k);

/* Appends complete lines, adding a newline after the last one if it has none. Splits a line that
 * is too long for one piece. Discards what cannot be allocated. */
void retained_output_add(struct retained_output *k, const struct output_source *of,
                         struct tfe_wall at, const char *bytes, size_t n);

#endif
