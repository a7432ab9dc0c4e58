/* agent/reach/ports.c: bound sockets that never listen keep the numbers until a trainer listens. */
#include "agent/reach/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/reach/proc.h"

/* Odd and even epochs. */
#define SETS 2

/* On loopback an answer is there when connect returns; this is for a machine that was just thawed.
 */
#define ANSWER_MS 5

struct port_set {
    uint16_t numbers[MSG_NPROC_MAX];
    int fds[MSG_NPROC_MAX]; /* -1: let go */
};

struct ports {
    uint32_t nproc;
    bool fixed;
    struct port_set sets[SETS];
};

static struct sockaddr_in ipv4(uint32_t address, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
}

/* A bound socket, or -1 with errno. TensorFlow binds 0.0.0.0, so that is what has to be free. */
static int port_bind(uint16_t port, bool share, bool reuse)
{
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    struct sockaddr_in any = ipv4(INADDR_ANY, port);
    if ((!share || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) &&
        (!reuse || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0) &&
        bind(fd, (const struct sockaddr *)&any, sizeof any) == 0) {
        return fd;
    }
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Binds so that a trainer with SO_REUSEPORT can too, and nobody without it. Connections of an
 * earlier server that still linger on the number (TIME_WAIT) may have been without it: those are
 * passed over with SO_REUSEADDR, which is not the first choice because others with it could then
 * take the number. */
static int port_hold(uint16_t port)
{
    int fd = port_bind(port, true, false);
    if (fd < 0 && errno == EADDRINUSE && port != 0) {
        fd = port_bind(port, true, true);
    }
    return fd;
}

static int port_number(int fd, uint16_t *ret)
{
    struct sockaddr_in name;
    socklen_t n = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &n) != 0) {
        return TFE_ESYS;
    }
    *ret = ntohs(name.sin_port);
    return 0;
}

static void why_port(struct tfe_why *why, uint16_t port)
{
    if (errno == EADDRINUSE) {
        why_set(why, "port %u is in use", (unsigned)port);
    } else {
        why_errno(why, "port %u", (unsigned)port);
    }
}

/* Holds a number of the kernel's choice. */
static int port_pick(int *ret_fd, uint16_t *ret_number, struct tfe_why *why)
{
    int fd = port_hold(0);
    if (fd < 0 || port_number(fd, ret_number) != 0) {
        why_errno(why, "reserve a port");
        if (fd >= 0) {
            close(fd);
        }
        return TFE_ESYS;
    }
    *ret_fd = fd;
    return 0;
}

static void set_let_go(struct port_set *set, uint32_t nproc)
{
    for (uint32_t i = 0; i < nproc; i++) {
        if (set->fds[i] >= 0) {
            close(set->fds[i]);
            set->fds[i] = -1;
        }
    }
}

/* New numbers for the whole set. The old ones are let go only then, so that no new one is an old
 * one. */
static int set_pick(struct port_set *set, uint32_t nproc, struct tfe_why *why)
{
    struct port_set picked;
    memset(picked.fds, -1, sizeof picked.fds);
    for (uint32_t i = 0; i < nproc; i++) {
        int rc = port_pick(&picked.fds[i], &picked.numbers[i], why);
        if (rc != 0) {
            set_let_go(&picked, nproc);
            return rc;
        }
    }
    set_let_go(set, nproc);
    *set = picked;
    return 0;
}

/* Whether nobody has the port, with or without SO_REUSEPORT. Connections that linger after an
 * earlier server (TIME_WAIT) do not count: they pass with SO_REUSEADDR, a listener does not. */
static bool port_is_free(uint16_t port)
{
    int fd = port_bind(port, false, false);
    if (fd < 0 && errno == EADDRINUSE) {
        fd = port_bind(port, false, true);
    }
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

/* Fixed numbers: in use by anybody at all is fatal now, and not a riddle inside TensorFlow later.
 */
static int set_fix(struct port_set *set, uint32_t nproc, uint16_t first, struct tfe_why *why)
{
    for (uint32_t i = 0; i < nproc; i++) {
        uint16_t port = (uint16_t)(first + i);
        if (port_is_free(port)) {
            set->fds[i] = port_hold(port);
        }
        if (set->fds[i] < 0) {
            why_port(why, port);
            return TFE_ESYS;
        }
        set->numbers[i] = port;
    }
    return 0;
}

int ports_new(uint32_t nproc, uint16_t fixed, struct ports **ret, struct tfe_why *why)
{
    if (nproc < 1 || nproc > MSG_NPROC_MAX || (uint32_t)fixed + nproc - 1 > UINT16_MAX) {
        why_set(why, "%u ports from %u on: there are no such ports", (unsigned)nproc,
                (unsigned)fixed);
        return TFE_EINVAL;
    }
    struct ports *ports = calloc(1, sizeof *ports);
    if (!ports) {
        why_set(why, "out of memory");
        return TFE_ENOMEM;
    }
    ports->nproc = nproc;
    ports->fixed = fixed != 0;
    int rc = 0;
    for (int i = 0; i < SETS; i++) {
        memset(ports->sets[i].fds, -1, sizeof ports->sets[i].fds);
    }
    if (fixed) {
        rc = set_fix(&ports->sets[0], nproc, fixed, why);
    }
    for (int i = 0; !fixed && rc == 0 && i < SETS; i++) {
        rc = set_pick(&ports->sets[i], nproc, why);
    }
    if (rc != 0) {
        ports_free(ports);
        return rc;
    }
    *ret = ports;
    return 0;
}

void ports_free(struct ports *ports)
{
    if (!ports) {
        return;
    }
    for (int i = 0; i < SETS; i++) {
        set_let_go(&ports->sets[i], ports->nproc);
    }
    free(ports);
}

static struct port_set *set_of(struct ports *ports, uint64_t epoch)
{
    return &ports->sets[ports->fixed ? 0 : epoch % SETS];
}

int ports_hold(struct ports *ports, uint64_t epoch, bool fresh, const uint16_t **ret_numbers,
               struct tfe_why *why)
{
    struct port_set *set = set_of(ports, epoch);
    if (fresh && !ports->fixed) {
        int rc = set_pick(set, ports->nproc, why);
        if (rc != 0) {
            return rc;
        }
    }
    for (uint32_t i = 0; i < ports->nproc; i++) {
        if (set->fds[i] >= 0) {
            continue;
        }
        set->fds[i] = port_hold(set->numbers[i]);
        if (set->fds[i] >= 0) {
            continue;
        }
        if (ports->fixed || errno != EADDRINUSE) {
            why_port(why, set->numbers[i]);
            return TFE_ESYS;
        }
        /* Somebody took it while the trainer had it: any other will do. */
        int rc = port_pick(&set->fds[i], &set->numbers[i], why);
        if (rc != 0) {
            return rc;
        }
    }
    *ret_numbers = set->numbers;
    return 0;
}

void ports_let_go(struct ports *ports, uint64_t epoch)
{
    set_let_go(set_of(ports, epoch), ports->nproc);
}

enum answer { ANSWER_REFUSED, ANSWER_ACCEPTED, ANSWER_NONE };

/* What a connection that has been begun came to. */
static enum answer answer_of(int fd, uint16_t port)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int error = 0;
    socklen_t n = sizeof error;
    if (poll(&ready, 1, ANSWER_MS) <= 0) {
        return ANSWER_NONE;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0 || error != 0) {
        return ANSWER_REFUSED;
    }
    /* A free port may be chosen as the near end too; TCP then connects a socket with itself. */
    uint16_t near;
    return port_number(fd, &near) == 0 && near == port ? ANSWER_REFUSED : ANSWER_ACCEPTED;
}

static enum answer port_ask(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return ANSWER_NONE;
    }
    /* Leaves nothing lingering on the port. */
    struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    struct sockaddr_in here = ipv4(INADDR_LOOPBACK, port);
    enum answer answer = ANSWER_REFUSED;
    if (connect(fd, (const struct sockaddr *)&here, sizeof here) == 0 || errno == EINPROGRESS) {
        answer = answer_of(fd, port);
    } else if (errno != ECONNREFUSED) {
        answer = ANSWER_NONE;
    }
    close(fd);
    return answer;
}

bool ports_still_accepting(struct ports *ports, uint64_t epoch, uint16_t *ret_port)
{
    const struct port_set *set = set_of(ports, epoch);
    for (uint32_t i = 0; i < ports->nproc; i++) {
        enum answer answer = port_ask(set->numbers[i]);
        /* Silence: a full accept queue, or a packet filter. The kernel's table knows which. */
        if (answer == ANSWER_ACCEPTED ||
            (answer == ANSWER_NONE && proc_port_listens(set->numbers[i]))) {
            *ret_port = set->numbers[i];
            return true;
        }
    }
    return false;
}
