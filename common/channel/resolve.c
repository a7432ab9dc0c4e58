/* common/channel/resolve.c: runs getaddrinfo(3) in a thread. */
#include "common/channel/resolve.h"

#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/base/worker.h"

/* Maximum number of pending requests. Clients retry every few seconds, and an unreachable name
 * server holds each request for half a minute; more than this many pending means that it does not
 * answer at all. */
#define RESOLVE_THREADS_MAX 8

/* Stack size of a thread; the system's resolver and its plugins need far less. */
#define RESOLVE_STACK (512 * 1024)

struct resolve {
    struct worker *worker;
    resolve_fn *on_done;
    void *ctx;
    char host[TFE_HOST_MAX + 1];
    char service[8];
    int error; /* result of getaddrinfo; owned, like addresses, by the loop once on_notify runs */
    struct resolve_addresses addresses;
};

/* Number of requests that have a thread. */
static atomic_int resolve_threads;

/* Copies IPv4 addresses, then IPv6, in the system's order of preference. */
static void copy_addresses(const struct addrinfo *list, struct resolve_addresses *ret)
{
    ret->n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (const struct addrinfo *ai = list; ai && ret->n < RESOLVE_MAX; ai = ai->ai_next) {
            const bool wanted = pass == 0 ? ai->ai_family == AF_INET : ai->ai_family == AF_INET6;
            if (wanted && ai->ai_addrlen <= sizeof ret->address[0]) {
                memcpy(&ret->address[ret->n], ai->ai_addr, ai->ai_addrlen);
                ret->length[ret->n] = ai->ai_addrlen;
                ret->n++;
            }
        }
    }
}

static int request(const char *host, const char *service, int flags, struct resolve_addresses *ret)
{
    const struct addrinfo hints = {.ai_flags = flags | AI_NUMERICSERV,
                                   .ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_protocol = IPPROTO_TCP};
    struct addrinfo *list = NULL;
    const int error = getaddrinfo(host, service, &hints, &list);
    if (error) {
        return error;
    }
    copy_addresses(list, ret);
    freeaddrinfo(list);
    return ret->n > 0 ? 0 : EAI_NONAME;
}

int resolve_numeric(const char *host, uint16_t port, struct resolve_addresses *ret)
{
    char service[8];
    (void)snprintf(service, sizeof service, "%u", (unsigned)port);
    return request(host, service, AI_NUMERICHOST, ret) ? TFE_EINVAL : 0;
}

/* --- thread ----------------------------------------------------------------------------------- */

static void work(void *ctx)
{
    struct resolve *r = ctx;
    r->error = request(r->host, r->service, 0, &r->addresses);
    worker_notify(r->worker);
}

static void done(void *ctx)
{
    (void)atomic_fetch_sub(&resolve_threads, 1);
    free(ctx);
}

/* --- event loop ------------------------------------------------------------------------------- */

static void on_notify(void *ctx)
{
    struct resolve *r = ctx;
    r->on_done(r->ctx, &r->addresses, r->error ? gai_strerror(r->error) : NULL);
    resolve_free(r);
}

int resolve_start(struct event_base *base, const char *host, uint16_t port, resolve_fn *on_done,
                  void *ctx, struct resolve **ret)
{
    struct resolve *r = calloc(1, sizeof *r);
    if (!r) {
        return TFE_ENOMEM;
    }
    *r = (struct resolve){.on_done = on_done, .ctx = ctx};
    (void)snprintf(r->host, sizeof r->host, "%s", host);
    (void)snprintf(r->service, sizeof r->service, "%u", (unsigned)port);
    const struct worker_config config = {.stack = RESOLVE_STACK,
                                         .work = work,
                                         .base = base,
                                         .on_notify = on_notify,
                                         .done = done,
                                         .ctx = r};
    int rc = TFE_ESYS;
    if (atomic_fetch_add(&resolve_threads, 1) < RESOLVE_THREADS_MAX) {
        rc = worker_start(&config, &r->worker);
    }
    if (rc) {
        done(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void resolve_free(struct resolve *r)
{
    if (r) {
        (void)worker_free(r->worker,
                          0); /* the request may still be running; then the thread frees it */
    }
}
