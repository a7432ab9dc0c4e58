/* common/channel/channel_dial.c: a client's connection set-up: resolve the name, try its addresses
 * in turn, connect. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/channel/channel_private.h"
#include "common/channel/endpoint.h"

int dial_new(const char *host, uint16_t port, const struct token *token,
             const struct handshake_params *params, uint32_t timeout_ms, struct channel_dial **ret)
{
    const size_t n = strlen(host);
    if (n == 0 || n > TFE_HOST_MAX) {
        return TFE_EINVAL;
    }
    struct channel_dial *dial = calloc(1, sizeof *dial);
    if (!dial) {
        return TFE_ENOMEM;
    }
    memcpy(dial->host, host, n + 1);
    dial->port = port;
    dial->deadline = tfe_mono_add(clock_mono(), timeout_ms);
    int rc =
        handshake_client_start(token, params, dial->request, &dial->request_n, &dial->handshake);
    if (rc) {
        free(dial);
        return rc;
    }
    *ret = dial;
    return 0;
}

void dial_free(struct channel_dial *dial)
{
    if (dial) {
        resolve_free(dial->resolve);
        handshake_client_free(dial->handshake);
        free(dial);
    }
}

static int64_t time_left(const struct channel_dial *dial)
{
    return tfe_mono_sub(dial->deadline, clock_mono());
}

/* Records why the address before `at` failed, unless an earlier one did. */
static void record_failure(struct channel_dial *dial, int error)
{
    char host[TFE_HOST_MAX + 1];
    if (dial->reason.text[0] != '\0') {
        return;
    }
    (void)endpoint_of((const struct sockaddr *)&dial->addresses.address[dial->at - 1], host, NULL);
    errno = error;
    reason_errno(&dial->reason, "connect to %s port %u", host, (unsigned)dial->port);
}

/* Tries addresses until a connect is in progress. Each address gets an equal share of the remaining
 * time. Runs no callbacks. */
static void try_next(struct channel *ch)
{
    struct channel_dial *dial = ch->dial;
    while (dial->at < dial->addresses.n) {
        const size_t i = dial->at++;
        const struct sockaddr_storage *address = &dial->addresses.address[i];
        const int fd =
            socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
        if (fd < 0) {
            record_failure(dial, errno);
            continue;
        }
        if (connect(fd, (const struct sockaddr *)address, dial->addresses.length[i]) &&
            errno != EINPROGRESS && errno != EINTR) {
            record_failure(dial, errno);
            (void)close(fd);
            continue;
        }
        channel_adopt_fd(ch, fd);
        channel_become(ch, CHANNEL_S_CONNECTING);
        if (event_add(&ch->write_ev, NULL)) {
            channel_end_later(ch, CHANNEL_NO_MEMORY, "no memory for an event", 0);
            return;
        }
        ch->want_write = true;
        (void)channel_set_timer(ch, time_left(dial) / (int64_t)(dial->addresses.n - i));
        return;
    }
    channel_end_later(ch, dial->timed_out ? CHANNEL_TIMEOUT : CHANNEL_UNREACHABLE,
                      dial->reason.text, 0);
}

/* Abandons the current address and tries the next. */
static void give_up_address(struct channel *ch, int error)
{
    record_failure(ch->dial, error);
    (void)event_del(&ch->write_ev);
    ch->want_write = false;
    (void)close(ch->fd);
    ch->fd = -1;
    try_next(ch);
}

void dial_on_slow(struct channel *ch)
{
    ch->dial->timed_out = true;
    give_up_address(ch, ETIMEDOUT);
}

/* True if the socket is connected to itself. This can happen on a connect to a local port without a
 * listener, if the kernel chooses that same port as the source, and would keep the server from
 * binding the port. */
static bool is_self_connected(int fd)
{
    struct sockaddr_storage ends[2];
    socklen_t n[2] = {sizeof ends[0], sizeof ends[1]};
    memset(ends, 0, sizeof ends);
    return getsockname(fd, (struct sockaddr *)&ends[0], &n[0]) == 0 &&
           getpeername(fd, (struct sockaddr *)&ends[1], &n[1]) == 0 && n[0] == n[1] &&
           memcmp(&ends[0], &ends[1], n[0]) == 0;
}

void dial_on_connected(struct channel *ch)
{
    struct channel_dial *dial = ch->dial;
    int error = 0;
    socklen_t n = sizeof error;
    if (getsockopt(ch->fd, SOL_SOCKET, SO_ERROR, &error, &n)) {
        error = errno;
    }
    if (error == 0 && is_self_connected(ch->fd)) {
        error = ECONNREFUSED;
    }
    if (error) {
        give_up_address(ch, error);
        return;
    }
    (void)event_del(&ch->write_ev);
    ch->want_write = false;
    channel_become(ch, CHANNEL_S_ANSWER);
    if (!channel_set_timer(ch, time_left(dial)) || !channel_start_reading(ch)) {
        return;
    }
    if (channel_queue_raw(ch, dial->request, dial->request_n)) {
        channel_end_later(ch, CHANNEL_NO_MEMORY, "no memory for a handshake", 0);
    }
}

void dial_on_resolved(struct channel *ch, const struct resolve_addresses *addresses,
                      const char *error)
{
    struct channel_dial *dial = ch->dial;
    dial->resolve = NULL;
    if (error) {
        reason_set(&dial->reason, "%s: %s", dial->host, error);
        channel_end_later(ch, CHANNEL_UNREACHABLE, dial->reason.text, 0);
    } else {
        dial->addresses = *addresses;
        try_next(ch);
    }
}

int dial_start(struct channel *ch, resolve_fn *on_resolved)
{
    struct channel_dial *dial = ch->dial;
    if (resolve_numeric(dial->host, dial->port, &dial->addresses) == 0) {
        try_next(ch);
        return 0;
    }
    if (!channel_set_timer(ch, time_left(dial))) {
        return TFE_ENOMEM;
    }
    return resolve_start(ch->base, dial->host, dial->port, on_resolved, ch, &dial->resolve);
}
