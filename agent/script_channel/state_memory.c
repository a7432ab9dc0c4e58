/* agent/script_channel/state_memory.c: sealed memfds whose pages are allocated in small steps,
 * so that the event loop can renew leases in between. */
#include "agent/script_channel/state_memory.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/os/memory.h"
#include "agent/os/trainer_user.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/cli/log.h"
#include "common/message/msg.h"

/* Bytes allocated per event, which takes about 10 ms. */
#define PIECE (UINT64_C(32) << 20)
#define MIB (UINT64_C(1) << 20)

/* Memory of one trainer; it outlives the trainer. */
struct block {
    int fd; /* -1 if there is none */
    uint64_t bytes;
    int next_fd; /* memfd that is being filled, or -1 */
    uint64_t next_bytes, filled;
};

struct state_memory {
    uint64_t limit;
    state_memory_fn *on_response;
    void *ctx;
    struct event *fill;
    struct block blocks[MSG_NPROC_MAX];
};

static void respond(struct state_memory *m, uint32_t local, const char *reason)
{
    const struct block *p = &m->blocks[local];
    bool has = p->fd >= 0 && !*reason;
    m->on_response(m->ctx, local, has ? p->fd : -1, has ? p->bytes : 0, reason);
}

static void reject(struct state_memory *m, uint32_t local, const struct tfe_reason *reason)
{
    log_warn("state_memory_refused", LOG_U("local_rank", local), LOG_S("reason", reason->text));
    respond(m, local, reason->text);
}

/* Returns true if the trainer may get this many bytes. Its present memory is
 * released only afterwards. */
static bool is_allowed(const struct state_memory *m, uint32_t local, uint64_t bytes,
                       struct tfe_reason *reason)
{
    uint64_t held = 0; /* by the other trainers */
    uint64_t unfilled = 0;
    for (uint32_t i = 0; i < MSG_NPROC_MAX; i++) {
        const struct block *p = &m->blocks[i];
        if (i != local) {
            held += p->bytes + p->next_bytes;
            unfilled += p->next_bytes - p->filled;
        }
    }
    uint64_t available = memory_free_bytes();
    available = available > unfilled ? available - unfilled : 0;
    bool is_auto = m->limit == STATE_MEMORY_AUTO;
    /* Even with an explicit limit the kernel must not run out of memory. */
    uint64_t allowed = is_auto ? available / 4 : available / 4 * 3;
    if (!is_auto && (bytes > m->limit || held > m->limit - bytes)) {
        reason_set(reason,
                   "the state needs %" PRIu64 " MiB of memory, and --state-memory allows %" PRIu64
                   " MiB on this node",
                   bytes / MIB + 1, m->limit / MIB);
        return false;
    }
    if (bytes > allowed) {
        reason_set(reason,
                   "the state needs %" PRIu64 " MiB of memory; %" PRIu64 " MiB are free here, of "
                   "which it may take %" PRIu64,
                   bytes / MIB + 1, available / MIB, allowed / MIB);
        return false;
    }
    return true;
}

/* Creates a file of fixed size without pages. Returns -1 with reason set. */
static int file_new(uint64_t bytes, struct tfe_reason *reason)
{
    int fd = memfd_create("tfe-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) || trainer_user_give(fd) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        reason_errno(reason, "memory for the state");
        fd_close(&fd);
    }
    return fd;
}

static void forget_next(struct block *p)
{
    fd_close(&p->next_fd);
    p->next_bytes = 0;
    p->filled = 0;
}

void state_memory_request(struct state_memory *m, uint32_t local, uint64_t bytes)
{
    struct block *p = &m->blocks[local];
    struct tfe_reason reason;
    if (bytes <= p->bytes) {
        forget_next(p);
        respond(m, local, "");
        return;
    }
    if (bytes <= p->next_bytes) {
        return; /* answered once it is filled */
    }
    forget_next(p);
    if (m->limit == 0) {
        respond(m, local, "--state-memory=0");
        return;
    }
    if (!is_allowed(m, local, bytes, &reason) || (p->next_fd = file_new(bytes, &reason)) < 0) {
        reject(m, local, &reason);
        return;
    }
    p->next_bytes = bytes;
    timer_after(m->fill, 0);
}

/* Allocates the next piece of one trainer's memory. Returns false if all are complete. */
static bool fill_some(struct state_memory *m)
{
    uint32_t local = 0;
    while (local < MSG_NPROC_MAX && m->blocks[local].next_fd < 0) {
        local++;
    }
    if (local == MSG_NPROC_MAX) {
        return false;
    }
    struct block *p = &m->blocks[local];
    uint64_t left = p->next_bytes - p->filled;
    uint64_t piece = left < PIECE ? left : PIECE;
    if (fallocate(p->next_fd, 0, (off_t)p->filled, (off_t)piece)) {
        if (errno == EINTR) {
            return true;
        }
        struct tfe_reason reason;
        reason_errno(&reason, "memory for the state");
        forget_next(p);
        reject(m, local, &reason);
        return true;
    }
    p->filled += piece;
    if (p->filled < p->next_bytes) {
        return true;
    }
    fd_close(&p->fd);
    p->fd = p->next_fd;
    p->bytes = p->next_bytes;
    p->next_fd = -1;
    forget_next(p);
    log_info("state_memory", LOG_U("local_rank", local), LOG_U("bytes", p->bytes));
    respond(m, local, "");
    return true;
}

static void on_fill(evutil_socket_t fd, short what, void *ctx)
{
    struct state_memory *m = ctx;
    if (fill_some(m)) {
        timer_after(m->fill, 0);
    }
}

struct state_memory *state_memory_new(struct event_base *base, uint64_t limit,
                                      state_memory_fn *on_response, void *ctx)
{
    struct state_memory *m = must_alloc(sizeof(*m));
    m->limit = limit;
    m->on_response = on_response;
    m->ctx = ctx;
    m->fill = evtimer_new(base, on_fill, m);
    must_succeed(m->fill);
    for (uint32_t i = 0; i < MSG_NPROC_MAX; i++) {
        m->blocks[i].fd = -1;
        m->blocks[i].next_fd = -1;
    }
    return m;
}

void state_memory_free(struct state_memory *m)
{
    if (!m) {
        return;
    }
    event_drop(&m->fill);
    for (uint32_t i = 0; i < MSG_NPROC_MAX; i++) {
        fd_close(&m->blocks[i].fd);
        fd_close(&m->blocks[i].next_fd);
    }
    free(m);
}
