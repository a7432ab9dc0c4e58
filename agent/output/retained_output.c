/* agent/output/retained_output.c: implementation of retained_output.h. */
#include "agent/output/retained_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/utf8.h"

/* Capacity of a piece whose source prints several lines within one millisecond. */
#define PIECE_MAX (MSG_LOG_TEXT_MAX + 1)

void retained_output_init(struct retained_output *k, size_t max)
{
    *k = (struct retained_output){.max = max};
    STAILQ_INIT(&k->pieces);
}

static size_t weight(const struct retained_piece *piece)
{
    return sizeof(*piece) + piece->cap;
}

static void drop(struct retained_output *k)
{
    struct retained_piece *piece = STAILQ_FIRST(&k->pieces);
    if (k->on_drop) {
        k->on_drop(k->ctx, piece);
    }
    k->dropped = piece->of.epoch > k->dropped ? piece->of.epoch : k->dropped;
    k->used -= weight(piece);
    k->last = k->last == piece ? NULL : k->last;
    STAILQ_REMOVE_HEAD(&k->pieces, link);
    free(piece);
}

void retained_output_done(struct retained_output *k)
{
    k->on_drop = NULL;
    while (!STAILQ_EMPTY(&k->pieces)) {
        drop(k);
    }
}

static void add_name(struct retained_output *k, const struct output_source *of, const char *name)
{
    const struct output_name *last =
        &k->names[(k->n_names + RETAINED_NAMES_MAX - 1) % RETAINED_NAMES_MAX];
    if (last->epoch == of->epoch && last->rank == of->rank) {
        return; /* the trainer's other stream added the name */
    }
    struct output_name *next = &k->names[k->n_names++ % RETAINED_NAMES_MAX];
    *next = (struct output_name){.epoch = of->epoch, .rank = of->rank};
    if (name) {
        (void)snprintf(next->name, sizeof(next->name), "%s", name);
    } else {
        (void)snprintf(next->name, sizeof(next->name), "rank-%u", (unsigned)of->rank);
    }
}

void retained_output_open(struct retained_output *k, const struct output_source *of,
                          const char *name)
{
    add_name(k, of, name);
    k->open++;
    k->first = k->first ? k->first : of->epoch;
    k->newest = of->epoch > k->newest ? of->epoch : k->newest;
}

void retained_output_close(struct retained_output *k)
{
    k->open--;
}

static bool is_of(const struct retained_piece *piece, const struct output_source *of,
                  struct tfe_wall at)
{
    return piece->of.epoch == of->epoch && piece->of.rank == of->rank &&
           piece->of.stream == of->stream && piece->at.ms == at.ms;
}

/* Returns a piece with n free bytes: the last one, or a new one that is only as large as needed
 * for sources that print rarely. Returns NULL if out of memory. */
static struct retained_piece *piece_for(struct retained_output *k, const struct output_source *of,
                                        struct tfe_wall at, size_t n)
{
    struct retained_piece *last = k->last;
    bool is_same = last && is_of(last, of, at);
    if (is_same && !k->sealed && last->cap - last->n >= n) {
        return last;
    }
    size_t cap = is_same ? PIECE_MAX : n;
    struct retained_piece *piece = malloc(sizeof(*piece) + cap);
    if (!piece) {
        return NULL;
    }
    *piece = (struct retained_piece){.of = *of, .at = at, .cap = cap};
    while (!STAILQ_EMPTY(&k->pieces) && k->used + weight(piece) > k->max) {
        drop(k);
    }
    k->used += weight(piece);
    k->sealed = false;
    STAILQ_INSERT_TAIL(&k->pieces, piece, link);
    k->last = piece;
    if (k->on_more) {
        k->on_more(k->ctx, piece);
    }
    return piece;
}

static uint32_t count_lines(const char *bytes, size_t n)
{
    uint32_t lines = 0;
    for (const char *at = bytes; (at = memchr(at, '\n', n - (size_t)(at - bytes))); at++) {
        lines++;
    }
    return lines;
}

/* Returns the number of bytes for one piece: complete lines if possible. */
static size_t portion(const char *bytes, size_t n)
{
    if (n < PIECE_MAX || (n == PIECE_MAX && bytes[n - 1] == '\n')) {
        return n;
    }
    const char *end = memrchr(bytes, '\n', PIECE_MAX);
    return end ? (size_t)(end - bytes) + 1 : utf8_cut(bytes, PIECE_MAX - 1);
}

void retained_output_add(struct retained_output *k, const struct output_source *of,
                         struct tfe_wall at, const char *bytes, size_t n)
{
    do {
        size_t part = portion(bytes, n);
        bool is_ended = part > 0 && bytes[part - 1] == '\n';
        struct retained_piece *piece = piece_for(k, of, at, part + !is_ended);
        if (!piece) {
            return;
        }
        memcpy(piece->bytes + piece->n, bytes, part);
        piece->n += part;
        piece->lines += count_lines(bytes, part);
        if (!is_ended) {
            piece->bytes[piece->n++] = '\n';
            piece->lines++;
        }
        bytes += part;
        n -= part;
    } while (n > 0);
}
