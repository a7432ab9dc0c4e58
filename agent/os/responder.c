/* agent/os/responder.c: sends one line to every client that connects; reads and stores nothing. */
#include "agent/os/responder.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/ports.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"

/* Maximum number of clients answered per event; the others wait for the next event. */
#define BACKLOG 16
#define ANSWERS_PER_ITERATION 16

struct responder {
    struct event_base *base;
    char line[RESPONDER_LINE_MAX];
    size_t line_n;
    int fds[MSG_NPROC_MAX];
    struct event *accepts[MSG_NPROC_MAX];
    size_t n;
};

size_t responder_line(const char *node, char ret[RESPONDER_LINE_MAX])
{
    return (size_t)snprintf(ret, RESPONDER_LINE_MAX, "tfe1 node %s\n", node);
}

static void on_connection(evutil_socket_t listener, short what, void *ctx)
{
    const struct responder *r = ctx;
    for (int i = 0; i < ANSWERS_PER_ITERATION; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return; /* no connection is left, or the next event retries */
        }
        /* The line fits into an empty send buffer; on failure the client sees the end
         * of the connection. */
        (void)!send(fd, r->line, r->line_n, MSG_NOSIGNAL);
        close(fd);
    }
}

struct responder *responder_new(struct event_base *base, const char *node)
{
    struct responder *r = must_alloc(sizeof *r);
    r->base = base;
    r->line_n = responder_line(node, r->line);
    return r;
}

void responder_free(struct responder *r)
{
    if (r) {
        responder_close(r);
        free(r);
    }
}

int responder_open(struct responder *r, const uint16_t *ports, size_t n, struct tfe_reason *reason)
{
    responder_close(r);
    for (size_t i = 0; i < n; i++) {
        int fd = ports_bind(ports[i]);
        if (fd < 0 || listen(fd, BACKLOG) != 0) {
            fd_close(&fd);
            reason_errno(reason, "answer on port %u", (unsigned)ports[i]);
            responder_close(r);
            return TFE_ESYS;
        }
        r->fds[i] = fd;
        r->accepts[i] = event_new(r->base, fd, EV_READ | EV_PERSIST, on_connection, r);
        r->n = i + 1;
        if (!r->accepts[i] || event_add(r->accepts[i], NULL) != 0) {
            reason_set(reason, "answer on port %u: out of memory", (unsigned)ports[i]);
            responder_close(r);
            return TFE_ESYS;
        }
    }
    return 0;
}

void responder_close(struct responder *r)
{
    for (size_t i = 0; i < r->n; i++) {
        event_drop(&r->accepts[i]);
        close(r->fds[i]);
    }
    r->n = 0;
}
