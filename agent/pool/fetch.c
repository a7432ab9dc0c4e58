/* agent/pool/fetch.c: see fetch.h.
 *
 *   ASKING ──CHUNK with bytes──► FROM_SERVER ──────────────────────────────┐
 *     ▲ └────CHUNK with a host──► FROM_PEER ──all there, as its digest says─┴──► ENDED ──► offered
 *     └──the peer fails: FETCH, failed──┘
 *
 * What has come is kept whoever goes on: only the whole can be judged. */
#include "agent/pool/fetch.h"

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/pool/offer.h"
#include "common/net/channel.h"
#include "common/net/clock.h"
#include "common/net/fd.h"
#include "common/net/heap.h"
#include "common/net/limits.h"
#include "common/net/log.h"
#include "common/net/state_dir.h"
#include "common/net/timer.h"
#include "common/wire/hello.h"
#include "common/wire/token.h"

/* A peer that gives nothing for so long is given up. */
#define PEER_SILENCE_MS 10000
/* Bytes that do not fit the digest: whoever gives them, it is not the network. */
#define WRONG_MAX 3u
/* Bundles that a machine keeps: at most so many times MSG_BUNDLE_MAX. */
#define KEPT_MAX 8

#define PART "part-"
/* Of an agent that was killed. */
#define PART_OLD_S 3600

struct fetch {
    struct fetch_wish wish;
    enum { ASKING, FROM_SERVER, FROM_PEER, ENDED } state;
    char path[PATH_MAX]; /* of what is fetched; "": it has no name */
    char kept[PATH_MAX]; /* … and is to have it, once it is whole; "": it is not kept */
    bool is_kept;        /* it was there */
    int fd;
    uint32_t total; /* 0: not known yet */
    uint32_t at;    /* bytes that have come */
    uint32_t asked; /* … up to here */
    unsigned wrong;
    crypto_generichash_state hash;
    struct channel *peer;
    struct hello_facts facts;
    struct event *soon;  /* ends in the next turn of the loop */
    struct offer *offer; /* NULL, too, where no port is to be had */
    bool has_all;        /* fetch_offer: that is said on every connection */
};

static void begin_anew(struct fetch *f)
{
    f->at = f->asked = f->total = 0;
    (void)crypto_generichash_init(&f->hash, NULL, 0, MSG_BUNDLE_HEX / 2);
}

/* --- the directory of bundles ----------------------------------------------------------------- */

struct kept {
    char name[MSG_BUNDLE_HEX + 1];
    struct timespec used;
};

static bool is_newer(const struct kept *a, const struct kept *b)
{
    return a->used.tv_sec != b->used.tv_sec ? a->used.tv_sec > b->used.tv_sec
                                            : a->used.tv_nsec > b->used.tv_nsec;
}

/* Leaves those that were used last, and room for one more. */
static void prune(const char *directory)
{
    struct kept newest[KEPT_MAX];
    size_t n = 0;
    struct stat st;
    DIR *entries = opendir(directory);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        const bool is_part = strncmp(entry->d_name, PART, sizeof PART - 1) == 0;
        if (fstatat(dirfd(entries), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !(is_part || submission_is_digest(entry->d_name))) {
            continue;
        }
        if (is_part && clock_wall().ms / 1000 - st.st_mtim.tv_sec > PART_OLD_S) {
            (void)unlinkat(dirfd(entries), entry->d_name, 0);
        }
        if (is_part) {
            continue;
        }
        struct kept one = {.used = st.st_mtim};
        memcpy(one.name, entry->d_name, sizeof one.name); /* a digest is as long */
        for (size_t i = 0; i < n; i++) {
            if (is_newer(&one, &newest[i])) {
                const struct kept older = newest[i];
                newest[i] = one;
                one = older;
            }
        }
        if (n < KEPT_MAX - 1) {
            newest[n++] = one;
        } else {
            (void)unlinkat(dirfd(entries), one.name, 0);
        }
    }
    if (entries) {
        closedir(entries);
    }
}

/* What is kept of it, or a file that is to be kept. -1: there is no such directory, or neither. */
static int open_kept(struct fetch *f, struct tfe_why *why)
{
    char directory[PATH_MAX];
    bool is_new;
    int rc = state_dir_find(f->wish.state_dir, f->path, why);
    rc = rc ? rc : state_dir_path(directory, f->path, "agent-" STATE_DIR_BUNDLES, why);
    rc = rc ? rc : state_dir_make(directory, &is_new, why);
    rc = rc ? rc : state_dir_path(f->kept, directory, f->wish.digest, why);
    rc = rc ? rc : state_dir_path(f->path, directory, PART "XXXXXX", why);
    int fd = rc ? -1 : open(f->kept, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        (void)futimens(fd, NULL); /* used now */
        f->is_kept = true;
    } else if (rc == 0) {
        prune(directory);
        fd = mkostemp(f->path, O_CLOEXEC);
        if (fd < 0) {
            why_errno(why, "make a file in %.300s", directory);
        }
    }
    if (f->is_kept || fd < 0) {
        f->path[0] = '\0';
    }
    return fd;
}

/* Where bundles cannot be kept this one is in memory, for its job. */
static int make_file(struct fetch *f, struct tfe_why *why)
{
    f->fd = f->wish.state_dir ? open_kept(f, why) : -1;
    if (f->fd < 0 && f->wish.state_dir) {
        log_warn("bundle_not_kept", LOG_S("why", why->text));
        f->kept[0] = '\0';
    }
    f->fd = f->fd >= 0 ? f->fd : memfd_create("bundle", MFD_CLOEXEC);
    if (f->fd < 0) {
        why_errno(why, "make a file for the bundle");
    }
    return f->fd >= 0 ? 0 : TFE_ESYS;
}

/* --- asking ----------------------------------------------------------------------------------- */

/* Of the peer, or of the server. */
static void say(struct fetch *f, const struct msg_fetch *fetch)
{
    const struct tfe_msg msg = {.type = MSG_FETCH, .u.fetch = *fetch};
    if (f->peer && f->state == FROM_PEER) {
        (void)!channel_send(f->peer, &msg); /* what goes wrong ends it, or it falls silent */
    } else {
        f->wish.send(f->wish.send_ctx, &msg);
    }
}

static void ask_on(struct fetch *f)
{
    /* While one piece travels the next one is read. */
    while (f->asked < f->total && f->asked - f->at <= MSG_FETCH_MAX) {
        const uint32_t left = f->total - f->asked;
        const uint32_t n = left < MSG_FETCH_MAX ? left : MSG_FETCH_MAX;
        say(f, &(struct msg_fetch){.digest = f->wish.digest, .offset = f->asked, .length = n});
        f->asked += n;
    }
}

/* The first piece, of whoever is to give it. */
static void ask_first(struct fetch *f, bool failed)
{
    f->asked = f->at + MSG_FETCH_MAX;
    say(f,
        &(struct msg_fetch){
            .digest = f->wish.digest, .offset = f->at, .length = MSG_FETCH_MAX, .failed = failed});
}

static void drop_peer(struct fetch *f)
{
    channel_free(f->peer);
    f->peer = NULL;
}

/* … and the server names another, or gives it itself. */
static void give_up_peer(struct fetch *f, const char *why)
{
    log_warn("bundle_peer_failed", LOG_S("why", why), LOG_U("bytes", f->at));
    drop_peer(f);
    f->state = ASKING;
    ask_first(f, true);
}

/* --- what comes ------------------------------------------------------------------------------- */

static void end(struct fetch *f, const char *why)
{
    drop_peer(f);
    f->state = ENDED;
    f->wish.ended(f->wish.ctx, why ? -1 : f->fd, why ? why : "");
}

static void fail(struct fetch *f, const char *why)
{
    struct tfe_why whole;
    why_set(&whole, "fetch the bundle: %s", why);
    end(f, whole.text);
}

static void finish(struct fetch *f)
{
    uint8_t sum[MSG_BUNDLE_HEX / 2];
    char hex[MSG_BUNDLE_HEX + 1];
    (void)crypto_generichash_final(&f->hash, sum, sizeof sum);
    (void)sodium_bin2hex(hex, sizeof hex, sum, sizeof sum);
    if (strcmp(hex, f->wish.digest) == 0) {
        if (f->path[0] && rename(f->path, f->kept) == 0) {
            f->path[0] = '\0';
        }
        log_info("bundle_fetched", LOG_U("bytes", f->total),
                 LOG_S("from", f->state == FROM_PEER ? "a node" : "the server"));
        end(f, NULL);
        return;
    }
    const bool is_peers = f->state == FROM_PEER;
    begin_anew(f);
    if (++f->wrong >= WRONG_MAX) {
        fail(f, "its bytes are not those that its digest says");
    } else if (is_peers) {
        give_up_peer(f, "its bytes are not those that the digest says");
    } else {
        f->state = ASKING;
        ask_first(f, false);
    }
}

static void take_bytes(struct fetch *f, const struct msg_chunk *chunk)
{
    if (f->total && chunk->total != f->total) { /* somebody has told a lie */
        begin_anew(f);
        if (++f->wrong >= WRONG_MAX) {
            fail(f, "those who give it do not agree how long it is");
        } else {
            ask_first(f, false);
        }
        return;
    }
    if (chunk->offset != f->at) {
        return; /* of who was asked before */
    }
    for (size_t n = 0; n < chunk->n_data;) {
        const ssize_t some = pwrite(f->fd, chunk->data + n, chunk->n_data - n, (off_t)(f->at + n));
        if (some < 0 && errno != EINTR) {
            fail(f, strerror(errno));
            return;
        }
        n += some > 0 ? (size_t)some : 0;
    }
    (void)crypto_generichash_update(&f->hash, chunk->data, chunk->n_data);
    f->total = chunk->total;
    f->at += (uint32_t)chunk->n_data;
    f->asked = f->asked < f->total ? f->asked : f->total;
    if (f->at == f->total) {
        finish(f);
    } else {
        ask_on(f);
    }
}

static void on_peer_established(void *ctx, struct channel *ch, const struct principal *by)
{
    channel_expect(ch, PEER_SILENCE_MS);
    ask_first(ctx, false);
}

static void on_peer_message(void *ctx, struct channel *ch, const struct tfe_msg *msg)
{
    struct fetch *f = ctx;
    if (msg->type == MSG_CHUNK && msg->u.chunk.n_data > 0 && f->state == FROM_PEER &&
        strcmp(msg->u.chunk.digest, f->wish.digest) == 0) {
        channel_expect(ch, PEER_SILENCE_MS);
        take_bytes(f, &msg->u.chunk);
    }
}

static void on_peer_closed(void *ctx, struct channel *ch, enum channel_end how, const char *detail)
{
    struct fetch *f = ctx;
    f->peer = NULL; /* it frees itself */
    give_up_peer(f, detail);
}

static void on_peer_silent(void *ctx, struct channel *ch)
{
    give_up_peer(ctx, "it says nothing");
}

static void go_to_peer(struct fetch *f, const struct msg_chunk *named)
{
    static const struct channel_ops ops = {.established = on_peer_established,
                                           .message = on_peer_message,
                                           .closed = on_peer_closed,
                                           .silent = on_peer_silent};
    struct token token;
    drop_peer(f);
    f->state = FROM_PEER;
    int rc = token_parse(&token, named->token);
    rc = rc ? rc
            : channel_connect(f->wish.base, named->host, named->port, &token, &f->facts,
                              LIMIT_HANDSHAKE_MS, &ops, f, &f->peer);
    token_done(&token);
    if (rc) {
        f->peer = NULL;
        give_up_peer(f, tfe_error_sentence(rc));
    }
}

void fetch_take(struct fetch *f, const struct msg_chunk *chunk)
{
    if (f->state == ENDED || f->state == FROM_PEER || strcmp(chunk->digest, f->wish.digest) != 0) {
        return;
    }
    if (chunk->n_data > 0) {
        f->state = FROM_SERVER;
        take_bytes(f, chunk);
    } else if (chunk->host) {
        go_to_peer(f, chunk);
    } else {
        fail(f, chunk->says);
    }
}

/* --- its life --------------------------------------------------------------------------------- */

static void on_soon(evutil_socket_t fd, short what, void *ctx)
{
    end(ctx, NULL);
}

int fetch_new(const struct fetch_wish *wish, struct fetch **ret, struct tfe_why *why)
{
    struct fetch *f = part_new(sizeof *f);
    struct stat st;
    *f = (struct fetch){.wish = *wish,
                        .fd = -1,
                        .facts = {.version_min = PROTOCOL_VERSION, .version_max = PROTOCOL_VERSION},
                        .soon = evtimer_new(wish->base, on_soon, f)};
    part_must(f->soon);
    randombytes_buf(&f->facts.boot_nonce, sizeof f->facts.boot_nonce);
    begin_anew(f);
    int rc = make_file(f, why);
    if (rc) {
        fetch_free(f);
        return rc;
    }
    *ret = f;
    if (f->is_kept) { /* it is there: what it is worth, the unpacker finds out */
        f->total = fstat(f->fd, &st) == 0 && st.st_size <= (off_t)MSG_BUNDLE_MAX
                       ? (uint32_t)st.st_size
                       : 0;
        f->state = ENDED;
        timer_after(f->soon, 0);
    } else {
        ask_first(f, false);
    }
    return 0;
}

void fetch_free(struct fetch *f)
{
    if (!f) {
        return;
    }
    drop_peer(f);
    offer_free(f->offer);
    event_drop(&f->soon);
    fd_drop(&f->fd);
    if (f->path[0]) {
        (void)unlink(f->path);
    }
    free(f);
}

static void say_offer(struct fetch *f)
{
    say(f, &(struct msg_fetch){.digest = f->wish.digest,
                               .has_all = true,
                               .port = f->offer ? offer_port(f->offer) : 0,
                               .token = f->offer ? offer_token(f->offer) : NULL});
}

void fetch_welcome(struct fetch *f)
{
    if (f->state == ASKING || f->state == FROM_SERVER) {
        f->state = ASKING;
        ask_first(f, false);
    } else if (f->has_all) {
        say_offer(f);
    }
}

void fetch_spoilt(struct fetch *f)
{
    if (f->kept[0]) {
        (void)unlink(f->kept);
    }
}

void fetch_offer(struct fetch *f)
{
    int rc = f->offer || f->total == 0
                 ? 0
                 : offer_new(f->wish.base, f->fd, f->total, f->wish.digest, &f->offer);
    if (rc) {
        log_warn("bundle_not_offered", LOG_S("why", tfe_error_sentence(rc)));
    }
    f->has_all = true;
    say_offer(f);
}
