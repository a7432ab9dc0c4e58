/* agent/output/output_ring.c: implementation of output_ring.h. */
#include "agent/output/output_ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

void output_ring_init(struct output_ring *ring, size_t max)
{
    *ring = (struct output_ring){.max = max};
    STAILQ_INIT(&ring->records);
    LIST_INIT(&ring->cursors);
}

static void release(struct output_stream *stream)
{
    if (--stream->refs == 0) {
        free(stream);
    }
}

static void drop_oldest(struct output_ring *ring)
{
    struct output_record *record = STAILQ_FIRST(&ring->records);
    struct output_cursor *cursor;
    LIST_FOREACH(cursor, &ring->cursors, link)
    {
        if (cursor->next == record) {
            cursor->on_lost(cursor->ctx, record, cursor->offset);
            output_cursor_advance(cursor);
        }
    }
    if (record->kind == RECORD_LINES && record->stream->of.epoch > ring->dropped) {
        ring->dropped = record->stream->of.epoch;
    }
    ring->used -= sizeof(*record) + record->n;
    STAILQ_REMOVE_HEAD(&ring->records, link);
    release(record->stream);
    free(record);
}

void output_ring_done(struct output_ring *ring)
{
    while (!STAILQ_EMPTY(&ring->records)) {
        drop_oldest(ring);
    }
}

void output_ring_add(struct output_ring *ring, struct output_stream *stream, enum record_kind kind,
                     struct tfe_wall at, const char *bytes, size_t n, size_t n_in_part)
{
    const size_t size = sizeof(struct output_record) + n;
    struct output_record *record = NULL;
    while (ring->used + size > ring->max || !(record = malloc(size))) {
        if (STAILQ_EMPTY(&ring->records)) {
            return;
        }
        drop_oldest(ring);
    }
    *record = (struct output_record){.start = ring->end,
                                     .stream = stream,
                                     .at = at,
                                     .kind = kind,
                                     .n = (uint32_t)n,
                                     .lines = output_count_lines(bytes, n),
                                     .n_in_part = (uint32_t)n_in_part};
    memcpy(record->bytes, bytes, n);
    stream->refs++;
    ring->used += size;
    ring->end += n;
    STAILQ_INSERT_TAIL(&ring->records, record, link);
    struct output_cursor *cursor;
    LIST_FOREACH(cursor, &ring->cursors, link)
    {
        cursor->next = cursor->next ? cursor->next : record;
        cursor->on_more(cursor->ctx);
    }
}

/* --- streams --- */

static void add_name(struct output_ring *ring, const struct output_stream *stream)
{
    const struct output_name *last =
        &ring->names[(ring->n_names + OUTPUT_NAMES_MAX - 1) % OUTPUT_NAMES_MAX];
    if (last->epoch == stream->of.epoch && last->rank == stream->of.rank) {
        return; /* the trainer's other stream added the name */
    }
    struct output_name *next = &ring->names[ring->n_names++ % OUTPUT_NAMES_MAX];
    *next = (struct output_name){.epoch = stream->of.epoch, .rank = stream->of.rank};
    memcpy(next->owner, stream->owner, sizeof(next->owner));
}

struct output_stream *output_ring_open(struct output_ring *ring, const struct output_source *of,
                                       const char *name)
{
    struct output_stream *stream = malloc(sizeof(*stream));
    if (!stream) {
        return NULL;
    }
    *stream = (struct output_stream){.of = *of, .label = stream->owner, .refs = 1};
    if (name) {
        (void)snprintf(stream->owner, sizeof(stream->owner), "%s", name);
    } else {
        (void)snprintf(stream->owner, sizeof(stream->owner), "rank-%u", (unsigned)of->rank);
        stream->label += strlen("rank-");
    }
    add_name(ring, stream);
    ring->n_open++;
    ring->first = ring->first ? ring->first : of->epoch;
    ring->newest = of->epoch > ring->newest ? of->epoch : ring->newest;
    return stream;
}

void output_ring_close(struct output_ring *ring, struct output_stream *stream)
{
    if (stream) {
        output_ring_add(ring, stream, RECORD_END, clock_wall(), "", 0, 0);
        ring->n_open--;
        release(stream);
    }
}

/* --- cursors --- */

void output_cursor_add(struct output_ring *ring, struct output_cursor *cursor,
                       const struct output_record *at)
{
    cursor->next = at;
    cursor->offset = 0;
    LIST_INSERT_HEAD(&ring->cursors, cursor, link);
}

void output_cursor_remove(struct output_cursor *cursor)
{
    LIST_REMOVE(cursor, link);
}

void output_cursor_advance(struct output_cursor *cursor)
{
    cursor->next = STAILQ_NEXT(cursor->next, link);
    cursor->offset = 0;
}

size_t output_cursor_lag(const struct output_ring *ring, const struct output_cursor *cursor)
{
    return cursor->next ? (size_t)(ring->end - cursor->next->start) - cursor->offset : 0;
}

/* --- lines --- */

size_t output_line(const char *bytes, size_t n, size_t *ret_length)
{
    const char *newline = memchr(bytes, '\n', n);
    *ret_length = newline ? (size_t)(newline - bytes) : n;
    return newline ? *ret_length + 1 : n;
}

uint32_t output_count_lines(const char *bytes, size_t n)
{
    uint32_t lines = n && bytes[n - 1] != '\n';
    for (const char *at = bytes; (at = memchr(at, '\n', n - (size_t)(at - bytes))); at++) {
        lines++;
    }
    return lines;
}

const char *output_visible(const char *line, size_t *n)
{
    size_t end = *n;
    while (end && line[end - 1] == '\r') { /* CR of CR LF, or a progress bar that ends with CR */
        end--;
    }
    const char *cr = memrchr(line, '\r', end);
    if (!cr) {
        return line;
    }
    *n -= (size_t)(cr + 1 - line);
    return cr + 1;
}
