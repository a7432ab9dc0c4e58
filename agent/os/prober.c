/* agent/os/prober.c: connects to every port of a probe in parallel and evaluates the results.
 *
 * States of a port:  CONNECTING --> READING --> DONE    (READING only if the node should answer)
 *
 * Every connection ends with a reset, so that no TIME_WAIT remains at either end, where a trainer
 * needs the port next. */
#include "agent/os/prober.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/responder.h"
#include "common/base/fd.h"
#include "common/base/heap.h"
#include "common/base/timer.h"
#include "common/channel/resolve.h"
#include "common/credentials/node_secrets.h"

struct probing;

_Static_assert(PROOF_LINE_MAX <= RESPONDER_LINE_MAX, "either fits");

struct port_try {
    struct probing *of;
    int fd; /* -1 if closed */
    struct event *ready;
    bool is_connected;
    enum tfe_probe_result result;
    char line[RESPONDER_LINE_MAX]; /* data received so far */
    size_t line_n;
};

struct probing {
    LIST_ENTRY(probing) link;
    struct prober *prober;
    uint64_t probe;
    enum tfe_probe_kind kind;
    bool is_of_guard; /* the connection goes to a guard's port and only fetches a proof */
    char expected[RESPONDER_LINE_MAX];
    size_t expected_n; /* length of `expected`, compared once complete_n bytes have arrived */
    size_t complete_n;
    bool has_loopback;       /* loopback addresses may be tried */
    struct event *timer;     /* timeout of the probe */
    struct resolve *resolve; /* name resolution in progress, or NULL */
    uint16_t ports[MSG_NPROC_MAX];
    size_t n;
    size_t n_done;
    struct port_try tries[MSG_NPROC_MAX];
};

struct prober {
    struct event_base *base;
    prober_fn *on_done;
    prober_proof_fn *on_proof;
    void *ctx;
    LIST_HEAD(, probing) all;
    size_t n[2]; /* number of probes of ports, and of guards */
};

/* --- end of a probe --- */

static void try_close(struct port_try *try)
{
    static const struct linger at_once = {.l_onoff = 1};
    event_drop(&try->ready);
    if (try->fd >= 0) {
        setsockopt(try->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        fd_close(&try->fd);
    }
}

static void probing_free(struct probing *p)
{
    resolve_free(p->resolve);
    for (size_t i = 0; i < p->n; i++) {
        try_close(&p->tries[i]);
    }
    event_drop(&p->timer);
    LIST_REMOVE(p, link);
    p->prober->n[p->is_of_guard]--;
    free(p);
}

/* Returns the weakest result of all ports (see enum tfe_probe_result). */
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
    bool is_of_guard = p->is_of_guard;
    enum tfe_probe_result result = verdict(p);
    char certificate[PROOF_CHARS + 1];
    bool has_certificate =
        is_of_guard && proof_read_line(p->tries[0].line, p->tries[0].line_n, certificate);
    probing_free(p);
    if (has_certificate) {
        prober->on_proof(prober->ctx, certificate);
    } else if (!is_of_guard) {
        prober->on_done(prober->ctx, probe, result);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    finish(ctx); /* unfinished ports report their preliminary results */
}

static void finish_soon(struct probing *p)
{
    static const struct timeval now = {0};
    evtimer_add(p->timer, &now);
}

/* --- one port --- */

static void try_done(struct port_try *try, enum tfe_probe_result result)
{
    try->result = result;
    try_close(try);
    if (++try->of->n_done == try->of->n) {
        finish_soon(try->of);
    }
}

/* The kernel may choose the same number for the local end; TCP then connects
 * the socket to itself. */
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
        /* a connection to itself proves nothing about another node */
        try_done(try, PROBE_NO_ANSWER);
    } else if (try->of->kind == PROBE_SUSPECT) {
        try_done(try, PROBE_ACCEPTED);
    } else {
        try->is_connected = true;
        try->result = PROBE_ACCEPTED; /* result if no data follows */
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
        try->result = PROBE_ANSWERED_OTHER; /* result if the rest differs or is missing */
    }
    size_t seen = try->line_n < p->expected_n ? try->line_n : p->expected_n;
    if (memcmp(try->line, p->expected, seen) != 0) {
        try_done(try, PROBE_ANSWERED_OTHER);
    } else if (try->line_n >= p->complete_n) {
        try_done(try, PROBE_ANSWERED_OURS);
    } else if (n <= 0) {
        try_done(try, try->result);
    }
}

static void on_ready(evutil_socket_t fd, short what, void *ctx)
{
    struct port_try *try = ctx;
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

/* --- probes --- */

/* Converts an address to IPv6; IPv4 becomes a mapped address. Returns false for other families. */
static bool as_v6(const struct sockaddr_storage *from, struct in6_addr *ret)
{
    if (from->ss_family == AF_INET6) {
        *ret = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
        return true;
    }
    *ret = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&ret->s6_addr[12], &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    return from->ss_family == AF_INET;
}

bool prober_is_loopback(const struct sockaddr_storage *address)
{
    struct in6_addr v6;
    return as_v6(address, &v6) &&
           (IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127));
}

/* Rejects addresses that only this machine or its link can reach (metadata services,
 * services that trust local clients, multicast groups), because the probed address is chosen
 * by another member. */
static bool may_be_tried(const struct probing *p, const struct sockaddr_storage *address)
{
    struct in6_addr v6;
    if (!as_v6(address, &v6)) {
        return false;
    }
    const uint8_t *v4 = IN6_IS_ADDR_V4MAPPED(&v6) ? &v6.s6_addr[12] : NULL;
    bool is_local = v4 ? v4[0] == 169 && v4[1] == 254 : IN6_IS_ADDR_LINKLOCAL(&v6);
    bool is_group = v4 ? v4[0] >= 224 : IN6_IS_ADDR_MULTICAST(&v6);
    /* Connecting to an unspecified address connects to this machine. */
    bool is_self = v4 ? v4[0] == 0 : IN6_IS_ADDR_UNSPECIFIED(&v6) || IN6_IS_ADDR_V4COMPAT(&v6);
    return !is_local && !is_group && !is_self && (p->has_loopback || !prober_is_loopback(address));
}

static void on_addresses(void *ctx, const struct resolve_addresses *addresses, const char *error)
{
    struct probing *p = ctx;
    p->resolve = NULL; /* freed by the resolver after this function */
    if (error || addresses->n == 0 || !may_be_tried(p, &addresses->address[0])) {
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

/* Allocates a probe and starts its timeout. Returns NULL if out of memory. */
static struct probing *probing_new(struct prober *prober, const struct msg_probe *probe,
                                   bool loopback, bool is_of_guard)
{
    static const struct timeval timeout = {.tv_sec = PROBER_MS / 1000,
                                           .tv_usec = PROBER_MS % 1000 * 1000};
    struct probing *p = calloc(1, sizeof *p);
    if (!p) {
        return NULL;
    }
    p->timer = evtimer_new(prober->base, on_timer, p);
    if (!p->timer || evtimer_add(p->timer, &timeout) != 0) {
        event_drop(&p->timer);
        free(p);
        return NULL;
    }
    p->prober = prober;
    p->probe = probe->probe;
    p->kind = probe->kind;
    p->has_loopback = loopback;
    p->expected_n = responder_line(probe->node, p->expected);
    p->complete_n = p->expected_n;
    p->n = probe->n_ports;
    memcpy(p->ports, probe->ports, p->n * sizeof p->ports[0]);
    for (size_t i = 0; i < p->n; i++) {
        p->tries[i] = (struct port_try){.of = p, .fd = -1, .result = PROBE_NO_ANSWER};
    }
    LIST_INSERT_HEAD(&prober->all, p, link);
    p->is_of_guard = is_of_guard;
    prober->n[is_of_guard]++;
    return p;
}

static void try_all(struct probing *p, const char *at)
{
    if (p->prober->n[p->is_of_guard] > PROBER_MAX) {
        finish_soon(p);
        return;
    }
    char host[TFE_HOST_MAX + 1];
    size_t n = strlen(at);
    bool bracketed = n > 2 && at[0] == '[' && at[n - 1] == ']';
    memcpy(host, at + bracketed, n + 1 - bracketed);
    if (bracketed) {
        host[n - 2] = '\0';
    }
    resolve(p, host);
}

/* Fetches a proof from the guard's port in a separate probe, so that the main probe does not
 * wait for a port that a firewall may drop. */
static void request_from_guard(struct prober *prober, const struct msg_probe *probe, bool loopback)
{
    struct msg_probe of_guard = *probe;
    of_guard.kind = PROBE_ADDRESS; /* the kind that reads an answer */
    of_guard.ports = &probe->guard_port;
    of_guard.n_ports = 1;
    struct probing *p = probing_new(prober, &of_guard, loopback, true);
    if (p) {
        p->expected_n = sizeof(PROOF_LINE_PREFIX) - 1;
        memcpy(p->expected, PROOF_LINE_PREFIX, sizeof(PROOF_LINE_PREFIX));
        p->complete_n = PROOF_LINE_MAX - 1;
        try_all(p, probe->host);
    }
}

int prober_start(struct prober *prober, const struct msg_probe *probe, bool loopback)
{
    struct probing *p = probing_new(prober, probe, loopback, false);
    if (!p) {
        return TFE_ENOMEM;
    }
    try_all(p, probe->host);
    if (probe->guard_port != 0) {
        request_from_guard(prober, probe, loopback);
    }
    return 0;
}

struct prober *prober_new(struct event_base *base, prober_fn *on_done, prober_proof_fn *on_proof,
                          void *ctx)
{
    struct prober *prober = must_alloc(sizeof *prober);
    prober->base = base;
    prober->on_done = on_done;
    prober->on_proof = on_proof;
    prober->ctx = ctx;
    LIST_INIT(&prober->all);
    return prober;
}

void prober_free(struct prober *prober)
{
    if (!prober) {
        return;
    }
    while (!LIST_EMPTY(&prober->all)) {
        /* The analyser does not see that the freed element has left the list. */
        probing_free(LIST_FIRST(&prober->all)); // NOLINT(clang-analyzer-unix.Malloc)
    }
    free(prober);
}
