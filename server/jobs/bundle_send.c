/* server/jobs/bundle_send.c: sends bundles to the nodes whose jobs use them. A few nodes download
 * at a time; the others wait in the order of their requests.
 *
 *   FETCH ──► WAITING ──a stream is free──► STREAMING ──the last byte is sent──► NONE
 *                ▲                              │
 *                └──too slow, or for too long───┘
 *
 * A queue belongs to a digest, whichever jobs name it. The disk worker reads the pieces, and they
 * share the batches of the event loop with other long responses, so that renewals do not wait. */
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/cli/log.h"
#include "server/jobs/bundles.h"
#include "server/jobs/pool_private.h"
#include "server/session.h"

/* A node that requests fewer bytes than this per window loses its stream to the next node. The
 * rate is what 32 streams get of a 10 Mbit/s link. */
#define WINDOW_MS 10000
#define WINDOW_BYTES (32u * 1024 * 10)
/* A node loses its stream after this time: 64 MiB take 10 minutes at 110 KiB/s. */
#define STREAM_MS 600000

struct pool_bundle_queue {
    TAILQ_ENTRY(pool_bundle_queue) link;
    char digest[MSG_BUNDLE_HEX + 1];
    struct pool_downloads waiting; /* nodes in the order of their requests */
    struct pool_downloads streaming;
    uint32_t n_nodes, n_streaming;
};

static void send_chunk(struct pool_node *node, struct msg_chunk chunk)
{
    const struct tfe_msg msg = {.type = MSG_CHUNK, .u.chunk = chunk};
    pool_node_send(node, &msg);
}

static void send_error(struct pool_node *node, const char *digest, const char *message)
{
    send_chunk(node, (struct msg_chunk){.digest = digest, .message = message});
}

static void set_error(struct pool_download *d, const char *error)
{
    free(d->error);
    d->error = error ? strdup(error) : NULL;
}

/* --- pieces --- */

static void drop_first_piece(struct pool_download *d)
{
    bundles_release(d->pieces[0].reading);
    d->pieces[0] = d->pieces[1];
    d->pieces[1] = (struct pool_piece){.reading = NULL};
    d->n_pieces--;
}

/* Sends the first piece. If memory runs out, the session ends and the node leaves its queue. */
static void send_piece(struct pool_node *node)
{
    struct pool_download *d = &node->download;
    const uint32_t offset = d->pieces[0].offset;
    uint32_t n;
    uint32_t total;
    const uint8_t *bytes = bundles_bytes(d->pieces[0].reading, &n, &total);
    if (n == 0) {
        send_error(node, d->queue->digest, "cannot read the bundle from the server's disk");
    }
    for (uint32_t at = 0; at < n && node->session; at += MSG_CHUNK_MAX) {
        const uint32_t left = n - at;
        send_chunk(node, (struct msg_chunk){.digest = d->queue->digest,
                                            .offset = offset + at,
                                            .total = total,
                                            .data = bytes + at,
                                            .n_data = left < MSG_CHUNK_MAX ? left : MSG_CHUNK_MAX,
                                            .message = ""});
    }
    if (node->session) { /* otherwise the node has left its queue */
        drop_first_piece(d);
        d->is_complete = n == 0 || offset + n >= total;
        if (n > 0) {
            set_error(d, NULL);
        }
    }
}

static void end_stream(struct pool *p, struct pool_node *node);
static void start_streams(struct pool *p);

/* Sends the pieces that have been read, as far as the batch allows. */
static void send_pieces(struct pool *p, struct pool_node *node)
{
    struct pool_download *d = &node->download;
    while (d->state == DOWNLOAD_STREAMING && d->n_pieces > 0 && d->pieces[0].is_read &&
           batch_may_continue(&d->pass)) {
        send_piece(node);
        if (d->is_complete) {
            end_stream(p, node);
        }
    }
    start_streams(p);
}

static void on_read(void *ctx, struct bundle_reading *reading)
{
    struct pool_node *node = ctx;
    struct pool_download *d = &node->download;
    d->pieces[d->pieces[0].reading == reading ? 0 : 1].is_read = true;
    send_pieces(node->job->pool, node);
}

/* Passes requested pieces to the disk worker. */
static void read_pieces(struct pool *p, struct pool_node *node)
{
    struct pool_download *d = &node->download;
    for (uint32_t i = 0; i < d->n_pieces; i++) {
        struct pool_piece *piece = &d->pieces[i];
        if (!piece->reading) {
            piece->reading = bundles_read(p->bundles, d->queue->digest, piece->offset,
                                          piece->length, on_read, node);
            piece->is_read = false;
        }
        if (!piece->reading) {
            send_error(node, d->queue->digest,
                       "the server no longer has the bundle (submit the job again)");
            end_stream(p, node);
            return;
        }
    }
}

/* --- streams --- */

static void forget_pieces(struct pool_download *d)
{
    while (d->n_pieces > 0) {
        drop_first_piece(d);
    }
    d->is_complete = false;
}

/* Removes the node from its queue's lists. Its pieces stay, and are not read. */
static void leave_lists(struct pool *p, struct pool_node *node)
{
    struct pool_download *d = &node->download;
    for (uint32_t i = 0; i < d->n_pieces; i++) {
        bundles_release(d->pieces[i].reading);
        d->pieces[i].reading = NULL;
    }
    if (d->state == DOWNLOAD_WAITING) {
        TAILQ_REMOVE(&d->queue->waiting, node, download.link);
    } else if (d->state == DOWNLOAD_STREAMING) {
        TAILQ_REMOVE(&d->queue->streaming, node, download.link);
        batch_leave(&d->pass);
        d->queue->n_streaming--;
        p->n_streaming--;
    }
    d->state = DOWNLOAD_NONE;
}

static void end_stream(struct pool *p, struct pool_node *node)
{
    leave_lists(p, node);
    forget_pieces(&node->download);
}

static void wait_for_stream(struct pool_node *node)
{
    struct pool_download *d = &node->download;
    d->state = DOWNLOAD_WAITING;
    TAILQ_INSERT_TAIL(&d->queue->waiting, node, download.link);
}

static void start_stream(struct pool *p, struct pool_node *node)
{
    struct pool_download *d = &node->download;
    struct session *s = node->session;
    TAILQ_REMOVE(&d->queue->waiting, node, download.link);
    TAILQ_INSERT_TAIL(&d->queue->streaming, node, download.link);
    d->queue->n_streaming++;
    p->n_streaming++;
    d->state = DOWNLOAD_STREAMING;
    d->is_complete = false;
    d->pass = batch_slot_for(&s->all->batch, s->channel);
    d->since = d->window = clock_mono();
    d->window_bytes = 0;
    pool_wake(p, tfe_mono_add(d->window, WINDOW_MS));
    read_pieces(p, node);
}

/* Gives free streams to waiting nodes, one bundle after the other, so that a job with many nodes
 * does not delay those behind it. */
static void start_streams(struct pool *p)
{
    struct pool_bundle_queue *queue = TAILQ_FIRST(&p->queues);
    while (queue && p->n_streaming < LIMIT_BUNDLE_STREAMS) {
        struct pool_node *node = TAILQ_FIRST(&queue->waiting);
        if (node && queue->n_streaming < LIMIT_BUNDLE_STREAMS_EACH) {
            TAILQ_REMOVE(&p->queues, queue, link);
            TAILQ_INSERT_TAIL(&p->queues, queue, link);
            start_stream(p, node);
            queue = TAILQ_FIRST(&p->queues);
        } else {
            queue = TAILQ_NEXT(queue, link);
        }
    }
}

/* Returns true if the stream waits for the disk or for a later batch. */
static bool waits_for_server(const struct pool_download *d)
{
    return d->n_pieces > 0 && (!d->pieces[0].is_read || d->pass.is_waiting);
}

/* Returns true if the node must give its stream to another one. */
static bool is_overdue(struct pool_download *d)
{
    const struct tfe_mono now = clock_mono();
    if (tfe_mono_sub(now, d->since) >= STREAM_MS) {
        return true;
    }
    if (tfe_mono_sub(now, d->window) < WINDOW_MS) {
        return false;
    }
    const bool is_slow = d->window_bytes < WINDOW_BYTES && !waits_for_server(d);
    d->window = now;
    d->window_bytes = 0;
    return is_slow;
}

static void check_streams_of(struct pool *p, struct pool_bundle_queue *queue)
{
    for (struct pool_node *node = TAILQ_FIRST(&queue->streaming), *next; node; node = next) {
        next = TAILQ_NEXT(node, download.link);
        if (is_overdue(&node->download)) {
            log_info("bundle_stream_overdue", LOG_S("node", node->id.text),
                     LOG_S("digest", queue->digest));
            leave_lists(p, node);
            if (node->download.n_pieces >
                0) { /* otherwise the node waits again when it sends its next request */
                wait_for_stream(node);
            }
        } else {
            pool_wake(p, tfe_mono_add(node->download.window, WINDOW_MS));
        }
    }
}

/* --- shares --- */

/* The streams of one owner of jobs (pool_owner_of). */
struct stream_holder {
    uint8_t owner[ADMISSION_NAME_MAX];
    size_t n_owner;
    uint32_t n;
    struct pool_node *longest; /* node whose stream has lasted longest */
};

/* Returns the entry of the node's owner, a new one if necessary. */
static struct stream_holder *holder_of(const struct pool *p, const struct pool_node *node,
                                       struct stream_holder holders[LIMIT_BUNDLE_STREAMS + 1])
{
    struct stream_holder *holder = holders;
    uint8_t owner[ADMISSION_NAME_MAX];
    size_t n = pool_owner_of(p, node->job->name.text, owner);
    if (n == 0) { /* unknown: the job itself */
        n = strlen(node->job->name.text);
        memcpy(owner, node->job->name.text, n);
    }
    while (holder->n_owner > 0 && (holder->n_owner != n || memcmp(holder->owner, owner, n) != 0)) {
        holder++;
    }
    memcpy(holder->owner, owner, n);
    holder->n_owner = n;
    return holder;
}

static void count_streams(const struct pool *p, struct stream_holder ret[LIMIT_BUNDLE_STREAMS + 1])
{
    const struct pool_bundle_queue *queue;
    struct pool_node *node;
    memset(ret, 0, (LIMIT_BUNDLE_STREAMS + 1) * sizeof(*ret));
    TAILQ_FOREACH(queue, &p->queues, link)
    {
        TAILQ_FOREACH(node, &queue->streaming, download.link)
        {
            struct stream_holder *holder = holder_of(p, node, ret);
            holder->n++;
            if (!holder->longest ||
                tfe_mono_before(node->download.since, holder->longest->download.since)) {
                holder->longest = node;
            }
        }
    }
}

/* Gives a stream to an owner that waits without one, from the owner that has most. The node that
 * loses its stream, after WINDOW_MS at least, continues later at its offset. */
static void share_streams(struct pool *p)
{
    struct stream_holder holders[LIMIT_BUNDLE_STREAMS + 1];
    struct pool_bundle_queue *queue;
    struct stream_holder *max = holders;
    if (p->n_streaming < LIMIT_BUNDLE_STREAMS) {
        return;
    }
    count_streams(p, holders);
    for (struct stream_holder *holder = holders; holder->n > 0; holder++) {
        max = holder->n > max->n ? holder : max;
    }
    TAILQ_FOREACH(queue, &p->queues, link)
    {
        struct pool_node *node = TAILQ_FIRST(&queue->waiting);
        struct pool_node *loser = max->longest;
        if (!node || holder_of(p, node, holders)->n > 0) {
            continue;
        }
        if (max->n > 1 && tfe_mono_sub(clock_mono(), loser->download.since) >= WINDOW_MS) {
            leave_lists(p, loser);
            if (loser->download.n_pieces > 0) {
                wait_for_stream(loser);
            }
            start_stream(p, node);
        }
        return;
    }
}

void pool_files_check(struct pool *p)
{
    struct pool_bundle_queue *queue;
    TAILQ_FOREACH(queue, &p->queues, link)
    {
        check_streams_of(p, queue);
    }
    start_streams(p);
    share_streams(p);
}

/* --- nodes --- */

static struct pool_bundle_queue *find_queue(const struct pool *p, const char *digest)
{
    struct pool_bundle_queue *queue;
    TAILQ_FOREACH(queue, &p->queues, link)
    {
        if (strcmp(queue->digest, digest) == 0) {
            break;
        }
    }
    return queue;
}

/* Returns false if out of memory. */
static bool join_queue(struct pool *p, struct pool_node *node, const char *digest)
{
    struct pool_bundle_queue *queue = find_queue(p, digest);
    if (!queue) {
        queue = calloc(1, sizeof(*queue));
        if (!queue) {
            return false;
        }
        memcpy(queue->digest, digest, MSG_BUNDLE_HEX + 1);
        TAILQ_INIT(&queue->waiting);
        TAILQ_INIT(&queue->streaming);
        TAILQ_INSERT_TAIL(&p->queues, queue, link);
    }
    queue->n_nodes++;
    node->download = (struct pool_download){.queue = queue};
    return true;
}

void pool_files_leave(struct pool *p, struct pool_node *node)
{
    struct pool_download *d = &node->download;
    struct pool_bundle_queue *queue = d->queue;
    if (!queue) {
        return;
    }
    end_stream(p, node);
    set_error(d, NULL);
    *d = (struct pool_download){.queue = NULL};
    if (--queue->n_nodes == 0) {
        TAILQ_REMOVE(&p->queues, queue, link);
        free(queue);
    }
    start_streams(p);
}

void pool_files_drained(struct pool *p, struct pool_node *node)
{
    send_pieces(p, node);
}

void pool_files_fetch(struct pool *p, struct pool_node *node, const struct msg_fetch *fetch)
{
    struct pool_download *d = &node->download;
    if (!node->job || strcmp(node->job->needs.bundle, fetch->digest) != 0) {
        send_error(node, fetch->digest, "this node's assignment names a different bundle");
        return;
    }
    if (!d->queue && !join_queue(p, node, node->job->needs.bundle)) {
        session_finish(node->session); /* the node asks again on its next connection */
        return;
    }
    if (fetch->error) {
        set_error(d, fetch->error);
    }
    if (d->n_pieces == sizeof(d->pieces) / sizeof(d->pieces[0])) {
        return; /* the protocol allows two outstanding pieces */
    }
    d->pieces[d->n_pieces++] =
        (struct pool_piece){.offset = fetch->offset, .length = fetch->length};
    if (d->state == DOWNLOAD_STREAMING) {
        d->window_bytes += fetch->length;
        read_pieces(p, node);
    } else if (d->state == DOWNLOAD_NONE) {
        wait_for_stream(node);
    }
    start_streams(p);
}

const char *pool_files_error(const struct pool_job *job, const char **ret_node)
{
    const struct pool_node *node;
    TAILQ_FOREACH(node, &job->nodes, of_job)
    {
        if (node->download.error) {
            *ret_node = pool_node_label(node);
            return node->download.error;
        }
    }
    return NULL;
}
