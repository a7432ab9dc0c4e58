/* common/cli/sd_notify.c: the protocol of sd_notify(3). */
#include "common/cli/sd_notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void sd_notify_send(const char *word)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    if (n == 0 || n > sizeof(to.sun_path)) {
        return;
    }
    memcpy(to.sun_path, path, n);
    if (path[0] == '@') {
        to.sun_path[0] = '\0'; /* name in the abstract namespace */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) {
        (void)sendto(fd, word, strlen(word), MSG_NOSIGNAL, (const struct sockaddr *)&to,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
        (void)close(fd);
    }
}

static void on_iteration(evutil_socket_t fd, short what, void *ctx)
{
    sd_notify_send("WATCHDOG=1");
}

struct event *sd_notify_watchdog(struct event_base *base)
{
    const char *text = getenv("WATCHDOG_USEC");
    const unsigned long long half = text ? strtoull(text, NULL, 10) / 2 : 0;
    struct timeval every = {.tv_sec = (time_t)(half / 1000000),
                            .tv_usec = (suseconds_t)(half % 1000000)};
    struct event *turn = half > 0 ? event_new(base, -1, EV_PERSIST, on_iteration, NULL) : NULL;
    if (turn) {
        (void)event_add(turn, &every);
    }
    return turn;
}
