/* agent/output/kept.h: the last of what this node's trainers have printed, in memory: for whoever
 * asks for it through the server. Bounded: the oldest goes, and who has not read it is told. */
#ifndef TFE_AGENT_OUTPUT_KEPT_H
#define TFE_AGENT_OUTPUT_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/output/log_place.h"
#include "common/message/msg.h"

/* Some 20,000 lines, or the last second of a trainer that floods. */
#define KEPT_BYTES_MAX ((size_t)2 * 1024 * 1024)

/* Whose lines they are. */
struct kept_source {
    uint64_t epoch;
    uint32_t rank;
    enum tfe_stream stream;
};

/* Whole lines of one source, read in the same millisecond; each ends in '\n'. */
struct kept_piece {
    STAILQ_ENTRY(kept_piece) link;
    struct kept_source of;
    struct tfe_wall at;
    uint32_t lines;
    size_t n; /* up to MSG_LOG_TEXT_MAX + 1 */
    size_t cap;
    char bytes[];
};
STAILQ_HEAD(kept_pieces, kept_piece);

/* What a trainer is called, and so are its log files. */
struct kept_name {
    uint64_t epoch;
    uint32_t rank;
    char name[OUTPUT_NAME_MAX];
};

/* Of the last few epochs, however many trainers a node has; of most nodes of all. */
#define KEPT_NAMES_MAX (4 * MSG_NPROC_MAX)

struct kept {
    struct kept_pieces pieces; /* the oldest first … */
    struct kept_piece *last;   /* … and the newest; NULL: none */
    size_t used, max;          /* bytes, what it takes to keep them included */
    uint64_t newest;           /* epoch that anything was printed in, or begun; 0: none */
    uint64_t first;            /* the first of them */
    uint64_t dropped;          /* the newest epoch of which something has gone; 0: none */
    uint32_t open;             /* streams that may still say something */
    bool sealed;               /* somebody has read the last piece: it stays as it is */
    struct kept_name names[KEPT_NAMES_MAX]; /* a ring */
    size_t n_names;                         /* so many were written into it */
    /* A piece has come; one goes, before it does. NULL: nobody reads. */
    void (*on_more)(void *ctx, struct kept_piece *piece);
    void (*on_drop)(void *ctx, struct kept_piece *piece);
    void *ctx;
};

/* max: KEPT_BYTES_MAX, but for tests. */
void kept_init(struct kept *k, size_t max);
void kept_done(struct kept *k);

/* A stream begins and ends. name: "ps-0"; NULL: "rank-R". */
void kept_open(struct kept *k, const struct kept_source *of, const char *name);
void kept_close(struct kept *k);

/* Keeps whole lines; to the last one its newline is added where it has none. A line that is too
 * long for one piece becomes several. What there is no memory for is not kept. */
void kept_add(struct kept *k, const struct kept_source *of, struct tfe_wall at, const char *bytes,
              size_t n);

#endif
