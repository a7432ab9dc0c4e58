/* agent/reach/prober.c: connects to every port of a probe at once, and judges what comes of it.
 *
 * A port:  CONNECTING --> READING --> DONE    reading only where the node itself should answer
 *
 * Every connection is ended with a reset: it leaves nothing lingering, neither here nor there,
 * where a trainer wants the port next. */
#include "agent/reach/prober.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/reach/responder.h"
#include "common/net/resolve.h"

struct probing;

struct port_try {
    struct probing *of;
    int fd; /* -1: none */
    struct event *ready;
    bool is_connected;
    bool is_done;
    enum tfe_probe_result result;
    char line[RESPONDER_LINE_MAX]; /* read so far */
    size_t line_n;
};

struct probing {
    LIST_ENTRY(probing) link;
    struct prober *prober;
    uint64_t probe;
    enum tfe_probe_kind kind;
    char expected[RESPONDER_LINE_MAX];
    size_t expected_n;
    struct event *timer;     /* the end of it */
    struct resolve *resolve; /* the name is being asked for */
    uint16_t ports[MSG_NPROC_MAX];
    size_t n;
    size_t n_done;
    struct port_try tries[MSG_NPROC_MAX];
};

struct prober {
    struct event_base *base;
    prober_fn *on_done;
    void *ctx;
    LIST_HEAD(, probing) all;
    size_t n;
};

/* --- the end of a probe ----------------------------------------------------------------------- */

static void try_close(struct port_try *try)
{
    static const struct linger at_once = {.l_onoff = 1};
    if (try->ready) {
        event_free(try->ready);
        try->ready = NULL;
    }
    if (try->fd >= 0) {
        setsockopt(try->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(try->fd);
        try->fd = -1;
    }
}

static void probing_free(struct probing *p)
{
    resolve_free(p->resolve);
    for (size_t i = 0; i < p->n; i++) {
        try_close(&p->tries[i]);
    }
    if (p->timer) {
        event_free(p->timer);
    }
    LIST_REMOVE(p, link);
    p->prober->n--;
    free(p);
}

/* The least that can be said of all ports together (msg.h). */
static enum tfe_probe_result verdict(const struct probing *p)
{
    static const enum tfe_probe_result weight[] = {PROBE_ANSWERED_OTHER, PROBE_ACCEPTED,
                                                   PROBE_NO_ANSWER, PROBE_REFUSED};
    for (size_t w = 0; w < sizeof weight / sizeof weight[0]; w++) {
        for (size_t i = 0; i < p->n; i++) {
            if (p->tries[i].result == weight[w]) {
                return weight[w];
            }
        }
    }
    return PROBE_ANSWERED_OURS;
}

static void finish(struct probing *p)
{
    struct prober *prober = p->prober;
    uint64_t probe = p->probe;
    enum tfe_probe_result result = verdict(p);
    probing_free(p);
    prober->on_done(prober->ctx, probe, result);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    finish(ctx); /* what is not done has the result that it would have now */
}

static void finish_soon(struct probing *p)
{
    static const struct timeval now = {0};
    evtimer_add(p->timer, &now);
}

/* --- one port --------------------------------------------------------------------------------- */

static void try_done(struct port_try *try, enum tfe_probe_result result)
{
    try->is_done = true;
    try->result = result;
    try_close(try);
    if (++try->of->n_done == try->of->n) {
        finish_soon(try->of);
    }
}

/* A free port may be chosen as the near end too; TCP then connects a socket with itself. */
static bool is_connected_to_itself(int fd)
{
    struct sockaddr_storage near = {0};
    struct sockaddr_storage far = {0};
    socklen_t near_n = sizeof near;
    socklen_t far_n = sizeof far;
    return getsockname(fd, (struct sockaddr *)&near, &near_n) == 0 &&
           getpeername(fd, (struct sockaddr *)&far, &far_n) == 0 && near_n == far_n &&
           memcmp(&near, &far, near_n) == 0;
}

static enum tfe_probe_result result_of_error(int error)
{
    return error == ECONNREFUSED ? PROBE_REFUSED : PROBE_NO_ANSWER;
}

static void try_connected(struct port_try *try)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (getsockopt(try->fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0) {
        error = errno;
    }
    if (error != 0) {
        try_done(try, result_of_error(error));
    } else if (is_connected_to_itself(try->fd)) {
        try_done(try, PROBE_NO_ANSWER); /* says nothing of anybody else */
    } else if (try->of->kind == PROBE_SUSPECT) {
        try_done(try, PROBE_ACCEPTED);
    } else {
        try->is_connected = true;
        try->result = PROBE_ACCEPTED; /* if nothing more comes */
        event_del(try->ready);
        if (event_assign(try->ready, event_get_base(try->ready), try->fd, EV_READ | EV_PERSIST,
                         event_get_callback(try->ready), try) != 0 ||
            event_add(try->ready, NULL) != 0) {
            try_done(try, PROBE_NO_ANSWER);
        }
    }
}

static void try_read(struct port_try *try)
{
    const struct probing *p = try->of;
    ssize_t n = recv(try->fd, try->line + try->line_n, sizeof try->line - try->line_n, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n > 0) {
        try->line_n += (size_t)n;
        try->result = PROBE_ANSWERED_OTHER; /* if it goes on otherwise, or not at all */
    }
    size_t seen = try->line_n < p->expected_n ? try->line_n : p->expected_n;
    if (memcmp(try->line, p->expected, seen) != 0) {
        try_done(try, PROBE_ANSWERED_OTHER);
    } else if (try->line_n >= p->expected_n) {
        try_done(try, PROBE_ANSWERED_OURS);
    } else if (n <= 0) {
        try_done(try, try->result);
    }
}

static void on_ready(evutil_socket_t fd, short what, void *ctx)
{
    struct port_try *try = ctx;
    (void)fd;
    (void)what;
    if (try->is_connected) {
        try_read(try);
    } else {
        try_connected(try);
    }
}

static void try_start(struct port_try *try, const struct sockaddr_storage *to, socklen_t to_n)
{
    try->fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (try->fd < 0) {
        try_done(try, PROBE_NO_ANSWER);
        return;
    }
    if (connect(try->fd, (const struct sockaddr *)to, to_n) != 0 && errno != EINPROGRESS) {
        try_done(try, result_of_error(errno));
        return;
    }
    try->ready = event_new(try->of->prober->base, try->fd, EV_WRITE | EV_PERSIST, on_ready, try);
    if (!try->ready || event_add(try->ready, NULL) != 0) {
        try_done(try, PROBE_NO_ANSWER);
    }
}

/* --- a probe ---------------------------------------------------------------------------------- */

static void on_addresses(void *ctx, const struct resolve_addresses *addresses, const char *error)
{
    struct probing *p = ctx;
    p->resolve = NULL; /* freed when this returns */
    if (error || addresses->n == 0) {
        finish_soon(p);
        return;
    }
    for (size_t i = 0; i < p->n; i++) {
        struct sockaddr_storage to = addresses->address[0];
        if (to.ss_family == AF_INET6) {
            ((struct sockaddr_in6 *)(void *)&to)->sin6_port = htons(p->ports[i]);
        } else {
            ((struct sockaddr_in *)(void *)&to)->sin_port = htons(p->ports[i]);
        }
        try_start(&p->tries[i], &to, addresses->length[0]);
    }
}

static void resolve(struct probing *p, const char *host)
{
    struct resolve_addresses addresses;
    if (resolve_numeric(host, p->ports[0], &addresses) == 0) {
        on_addresses(p, &addresses, NULL);
    } else if (resolve_start(p->prober->base, host, p->ports[0], on_addresses, p, &p->resolve)) {
        p->resolve = NULL;
        finish_soon(p);
    }
}

int prober_start(struct prober *prober, const struct msg_probe *probe)
{
    static const struct timeval patience = {.tv_sec = PROBER_MS / 1000,
                                            .tv_usec = PROBER_MS % 1000 * 1000};
    struct probing *p = calloc(1, sizeof *p);
    if (!p) {
        return TFE_ENOMEM;
    }
    p->timer = evtimer_new(prober->base, on_timer, p);
    if (!p->timer || evtimer_add(p->timer, &patience) != 0) {
        if (p->timer) {
            event_free(p->timer);
        }
        free(p);
        return TFE_ENOMEM;
    }
    p->prober = prober;
    p->probe = probe->probe;
    p->kind = probe->kind;
    p->expected_n = responder_line(probe->node, p->expected);
    p->n = probe->n_ports;
    memcpy(p->ports, probe->ports, p->n * sizeof p->ports[0]);
    for (size_t i = 0; i < p->n; i++) {
        p->tries[i] = (struct port_try){.of = p, .fd = -1, .result = PROBE_NO_ANSWER};
    }
    LIST_INSERT_HEAD(&prober->all, p, link);
    prober->n++;
    if (prober->n > PROBER_MAX) {
        finish_soon(p);
        return 0;
    }
    char host[TFE_HOST_MAX + 1];
    size_t n = strlen(probe->host);
    bool bracketed = n > 2 && probe->host[0] == '[' && probe->host[n - 1] == ']';
    memcpy(host, probe->host + bracketed, n + 1 - bracketed);
    if (bracketed) {
        host[n - 2] = '\0';
    }
    resolve(p, host);
    return 0;
}

int prober_new(struct event_base *base, prober_fn *on_done, void *ctx, struct prober **ret)
{
    struct prober *prober = calloc(1, sizeof *prober);
    if (!prober) {
        return TFE_ENOMEM;
    }
    prober->base = base;
    prober->on_done = on_done;
    prober->ctx = ctx;
    LIST_INIT(&prober->all);
    *ret = prober;
    return 0;
}

void prober_free(struct prober *prober)
{
    if (!prober) {
        return;
    }
    while (!LIST_EMPTY(&prober->all)) {
        probing_free(LIST_FIRST(&prober->all));
    }
    free(prober);
}
