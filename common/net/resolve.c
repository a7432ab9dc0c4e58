/* common/net/resolve.c: getaddrinfo(3) in a detached thread, which tells the loop through an
 * eventfd. */
#include "common/net/resolve.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/id.h"

/* A client asks again every few seconds while a dead name server keeps each question for half a
 * minute; more than this many at once mean that it does not answer at all. */
#define RESOLVE_THREADS_MAX 8

/* The system's resolver and its plugins stay far below. */
#define RESOLVE_STACK (512 * 1024)

/* What loop and thread share; whoever lets go last frees it. */
struct question {
    atomic_int holders;
    atomic_bool answered;
    int wake_fd;
    char host[TFE_HOST_MAX + 1];
    char service[8];
    int error; /* of getaddrinfo; this and addresses are the loop's once answered is set */
    struct resolve_addresses addresses;
};

struct resolve {
    struct question *question;
    struct event wake;
    resolve_fn *on_done;
    void *ctx;
};

static atomic_int resolve_threads;

static void question_let_go(struct question *q)
{
    if (atomic_fetch_sub(&q->holders, 1) == 1) {
        if (q->wake_fd >= 0) {
            (void)close(q->wake_fd);
        }
        free(q);
    }
}

/* Copies v4 addresses, then the others, in the order the system prefers. */
static void take_addresses(const struct addrinfo *list, struct resolve_addresses *ret)
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

static int ask(const char *host, const char *service, int flags, struct resolve_addresses *ret)
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
    take_addresses(list, ret);
    freeaddrinfo(list);
    return ret->n > 0 ? 0 : EAI_NONAME;
}

int resolve_numeric(const char *host, uint16_t port, struct resolve_addresses *ret)
{
    char service[8];
    (void)snprintf(service, sizeof service, "%u", (unsigned)port);
    return ask(host, service, AI_NUMERICHOST, ret) ? TFE_EINVAL : 0;
}

static void *resolve_thread(void *arg)
{
    struct question *q = arg;
    const int wake_fd = q->wake_fd;
    q->error = ask(q->host, q->service, 0, &q->addresses);
    atomic_store(&q->answered, true);
    const uint64_t one = 1;
    /* Cannot fail: the counter is 0. If the loop has lost interest, nobody reads it. */
    (void)!write(wake_fd, &one, sizeof one);
    question_let_go(q);
    (void)atomic_fetch_sub(&resolve_threads, 1);
    return NULL;
}

/* Signals stay with the thread of the loop. */
static int start_thread(struct question *q)
{
    if (atomic_fetch_add(&resolve_threads, 1) >= RESOLVE_THREADS_MAX) {
        (void)atomic_fetch_sub(&resolve_threads, 1);
        return EAGAIN;
    }
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error) {
        (void)atomic_fetch_sub(&resolve_threads, 1);
        return error;
    }
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    error = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    error = error ? error : pthread_attr_setstacksize(&attr, RESOLVE_STACK);
    error = error ? error : pthread_create(&thread, &attr, resolve_thread, q);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    if (error) {
        (void)atomic_fetch_sub(&resolve_threads, 1);
    }
    return error;
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct resolve *r = arg;
    struct question *q = r->question;
    uint64_t count;
    if (read(fd, &count, sizeof count) != (ssize_t)sizeof count || !atomic_load(&q->answered)) {
        return;
    }
    (void)event_del(&r->wake);
    /* The thread has written and does not look at it again. */
    (void)close(q->wake_fd);
    q->wake_fd = -1;
    r->on_done(r->ctx, &q->addresses, q->error ? gai_strerror(q->error) : NULL);
    question_let_go(q);
    free(r);
}

int resolve_start(struct event_base *base, const char *host, uint16_t port, resolve_fn *on_done,
                  void *ctx, struct resolve **ret)
{
    int rc = TFE_ENOMEM;
    struct resolve *r = calloc(1, sizeof *r);
    struct question *q = calloc(1, sizeof *q);
    if (!r || !q) {
        goto free_both;
    }
    rc = TFE_ESYS;
    q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->wake_fd < 0) {
        goto free_both;
    }
    atomic_init(&q->holders, 2);
    atomic_init(&q->answered, false);
    (void)snprintf(q->host, sizeof q->host, "%s", host);
    (void)snprintf(q->service, sizeof q->service, "%u", (unsigned)port);
    *r = (struct resolve){.question = q, .on_done = on_done, .ctx = ctx};
    if (event_assign(&r->wake, base, q->wake_fd, EV_READ | EV_PERSIST, on_wake, r) ||
        event_add(&r->wake, NULL)) {
        goto close_fd;
    }
    if (start_thread(q)) {
        goto del_event;
    }
    *ret = r;
    return 0;
del_event:
    (void)event_del(&r->wake);
close_fd:
    (void)close(q->wake_fd);
free_both:
    free(q);
    free(r);
    return rc;
}

void resolve_free(struct resolve *r)
{
    if (r) {
        (void)event_del(&r->wake);
        question_let_go(r->question);
        free(r);
    }
}
