/* agent/os/ports.c: reserves ports with bound sockets that never listen. */
#include "agent/os/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/proc.h"
#include "agent/os/trainer_user.h"
#include "common/base/fd.h"
#include "common/base/heap.h"

/* one set for odd epochs, one for even epochs */
#define SETS 2

/* Attempts to find two free neighbouring port numbers before two unrelated ports are used.
 * Unrelated numbers only make the changes of a table larger. */
#define PAIR_TRIES 32

/* Timeout of a connection over loopback, which normally completes at once; it matters only on a
 * machine that has just been resumed. */
#define ANSWER_MS 5

struct port_set {
    uint16_t numbers[MSG_NPROC_MAX];
    int fds[MSG_NPROC_MAX]; /* -1 if closed */
};

struct ports {
    uint32_t nproc;
    bool fixed;
    struct port_set sets[SETS];
    struct port_set
        /* replaces the set at its next ports_hold; all closed if there is no replacement */
        next[SETS];
};

static struct sockaddr_in ipv4(uint32_t address, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(address)};
}

/* Returns a bound socket, or -1 with errno set. Binds 0.0.0.0, as TensorFlow does. */
static int port_bind(uint16_t port, bool share, bool reuse)
{
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    struct sockaddr_in any = ipv4(INADDR_ANY, port);
    if (trainer_user_give(fd) == 0 &&
        (!share || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) &&
        (!reuse || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0) &&
        bind(fd, (const struct sockaddr *)&any, sizeof any) == 0) {
        return fd;
    }
    fd_close(&fd);
    return -1;
}

/* Connections in TIME_WAIT of an earlier server without SO_REUSEPORT block the number;
 * SO_REUSEADDR ignores them. It is only the second choice, because other sockets with it could
 * then bind the number. */
int ports_bind(uint16_t port)
{
    int fd = port_bind(port, true, false);
    if (fd < 0 && errno == EADDRINUSE && port != 0) {
        fd = port_bind(port, true, true);
    }
    return fd;
}

static int port_number(int fd, uint16_t *ret)
{
    struct sockaddr_in name = {0};
    socklen_t n = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &n) != 0) {
        return TFE_ESYS;
    }
    *ret = ntohs(name.sin_port);
    return 0;
}

static void set_port_reason(struct tfe_reason *reason, uint16_t port)
{
    if (errno == EADDRINUSE) {
        reason_set(reason, "port %u is in use", (unsigned)port);
    } else {
        reason_errno(reason, "port %u", (unsigned)port);
    }
}

/* Reserves a number that the kernel chooses. */
static int port_pick(int *ret_fd, uint16_t *ret_number, struct tfe_reason *reason)
{
    int fd = ports_bind(0);
    if (fd < 0 || port_number(fd, ret_number) != 0) {
        reason_errno(reason, "reserve a port");
        fd_close(&fd);
        return TFE_ESYS;
    }
    *ret_fd = fd;
    return 0;
}

/* Reserves exactly this number, or returns -1 if it is in use. SO_REUSEPORT is set only after
 * bind, because otherwise the socket would share the port with another agent's reservation. */
static int port_bind_exclusive(uint16_t port)
{
    int on = 1;
    int fd = port_bind(port, false, false);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0) {
        fd_close(&fd);
    }
    return fd;
}

/* Reserves two numbers that differ in the last bit, the even one first; after PAIR_TRIES
 * attempts, any two. */
static int pair_pick(int fds[SETS], uint16_t numbers[SETS], struct tfe_reason *reason)
{
    /* kept open until the end, so that the kernel does not offer them again */
    int passed[PAIR_TRIES];
    int n = 0;
    int fd = -1;
    int other = -1;
    uint16_t number = 0;
    int rc = port_pick(&fd, &number, reason);
    while (rc == 0 && other < 0 && n < PAIR_TRIES) {
        other = port_bind_exclusive(number ^ 1);
        if (other < 0) {
            passed[n++] = fd;
            rc = port_pick(&fd, &number, reason);
        }
    }
    int odd = number & 1;
    numbers[odd] = number;
    numbers[!odd] = number ^ 1;
    if (rc == 0 && other < 0) {
        rc = port_pick(&other, &numbers[!odd], reason);
        if (rc != 0) {
            fd_close(&fd);
        }
    }
    while (n > 0) {
        close(passed[--n]);
    }
    fds[odd] = fd;
    fds[!odd] = other;
    return rc;
}

static void set_release(struct port_set *set, uint32_t nproc)
{
    for (uint32_t i = 0; i < nproc; i++) {
        fd_close(&set->fds[i]);
    }
}

/* Marks all sockets of the set as closed. */
static void set_clear(struct port_set *set)
{
    memset(set->fds, -1, sizeof set->fds);
}

static int sets_pick(struct port_set sets[SETS], uint32_t nproc, struct tfe_reason *reason)
{
    set_clear(&sets[0]);
    set_clear(&sets[1]);
    for (uint32_t i = 0; i < nproc; i++) {
        int fds[SETS];
        uint16_t numbers[SETS];
        int rc = pair_pick(fds, numbers, reason);
        for (int k = 0; k < SETS && rc == 0; k++) {
            sets[k].fds[i] = fds[k];
            sets[k].numbers[i] = numbers[k];
        }
        if (rc != 0) {
            set_release(&sets[0], nproc);
            set_release(&sets[1], nproc);
            return rc;
        }
    }
    return 0;
}

/* Replaces a set. Its old sockets are closed only now, so that the new numbers differ
 * from the old ones. */
static void set_replace(struct port_set *set, uint32_t nproc, const struct port_set *replacement)
{
    set_release(set, nproc);
    *set = *replacement;
}

/* Chooses new numbers for a set. The other set is in use, so it gets its halves of the pairs at
 * its next ports_hold. */
static int ports_renew(struct ports *ports, int k, struct tfe_reason *reason)
{
    struct port_set picked[SETS];
    int rc = sets_pick(picked, ports->nproc, reason);
    if (rc == 0) {
        set_release(&ports->next[k], ports->nproc);
        set_replace(&ports->sets[k], ports->nproc, &picked[k]);
        set_replace(&ports->next[!k], ports->nproc, &picked[!k]);
    }
    return rc;
}

/* Returns true if no socket is bound to the port, with or without SO_REUSEPORT. Connections in
 * TIME_WAIT do not count: SO_REUSEADDR ignores them, but not a listener. */
static bool port_is_free(uint16_t port)
{
    int fd = port_bind(port, false, false);
    if (fd < 0 && errno == EADDRINUSE) {
        fd = port_bind(port, false, true);
    }
    bool is_free = fd >= 0;
    fd_close(&fd);
    return is_free;
}

/* Reserves fixed numbers. A number in use is an error here, because TensorFlow would fail later
 * with an obscure message. */
static int set_fix(struct port_set *set, uint32_t nproc, uint16_t first, struct tfe_reason *reason)
{
    for (uint32_t i = 0; i < nproc; i++) {
        uint16_t port = (uint16_t)(first + i);
        if (port_is_free(port)) {
            set->fds[i] = ports_bind(port);
        }
        if (set->fds[i] < 0) {
            set_port_reason(reason, port);
            return TFE_ESYS;
        }
        set->numbers[i] = port;
    }
    return 0;
}

int ports_new(uint32_t nproc, uint16_t fixed, struct ports **ret, struct tfe_reason *reason)
{
    if (nproc < 1 || nproc > MSG_NPROC_MAX || (uint32_t)fixed + nproc - 1 > UINT16_MAX) {
        reason_set(reason, "cannot use %u ports from port %u on: outside the range of ports",
                   (unsigned)nproc, (unsigned)fixed);
        return TFE_EINVAL;
    }
    struct ports *ports = must_alloc(sizeof *ports);
    ports->nproc = nproc;
    ports->fixed = fixed != 0;
    for (int k = 0; k < SETS; k++) {
        set_clear(&ports->sets[k]);
        set_clear(&ports->next[k]);
    }
    int rc = fixed ? set_fix(&ports->sets[0], nproc, fixed, reason)
                   : sets_pick(ports->sets, nproc, reason);
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
    for (int k = 0; k < SETS; k++) {
        set_release(&ports->sets[k], ports->nproc);
        set_release(&ports->next[k], ports->nproc);
    }
    free(ports);
}

/* Returns the index of the epoch's set. */
static int set_number(const struct ports *ports, uint64_t epoch)
{
    return ports->fixed ? 0 : (int)(epoch % SETS);
}

static struct port_set *set_of(struct ports *ports, uint64_t epoch)
{
    return &ports->sets[set_number(ports, epoch)];
}

int ports_hold(struct ports *ports, uint64_t epoch, bool fresh, const uint16_t **ret_numbers,
               struct tfe_reason *reason)
{
    int k = set_number(ports, epoch);
    struct port_set *set = &ports->sets[k];
    if (fresh && !ports->fixed) {
        int rc = ports_renew(ports, k, reason);
        if (rc != 0) {
            return rc;
        }
    } else if (ports->next[k].fds[0] >= 0) {
        set_replace(set, ports->nproc, &ports->next[k]);
        set_clear(&ports->next[k]);
    }
    for (uint32_t i = 0; i < ports->nproc; i++) {
        if (set->fds[i] >= 0) {
            continue;
        }
        /* Check first: another agent of this user would share the port. A fixed port
         * cannot be replaced. */
        if (ports->fixed || port_is_free(set->numbers[i])) {
            set->fds[i] = ports_bind(set->numbers[i]);
        }
        if (set->fds[i] >= 0) {
            continue;
        }
        if (ports->fixed || errno != EADDRINUSE) {
            set_port_reason(reason, set->numbers[i]);
            return TFE_ESYS;
        }
        /* The number was taken while the trainer had it; any other number will do. */
        int rc = port_pick(&set->fds[i], &set->numbers[i], reason);
        if (rc != 0) {
            return rc;
        }
    }
    *ret_numbers = set->numbers;
    return 0;
}

void ports_release(struct ports *ports, uint64_t epoch)
{
    set_release(set_of(ports, epoch), ports->nproc);
}

enum answer { ANSWER_REFUSED, ANSWER_ACCEPTED, ANSWER_NONE };

/* Returns the result of a connection attempt in progress. */
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
    /* The kernel may choose the same number for the local end; TCP then connects
     * the socket to itself. */
    uint16_t near;
    return port_number(fd, &near) == 0 && near == port ? ANSWER_REFUSED : ANSWER_ACCEPTED;
}

static enum answer port_try(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return ANSWER_NONE;
    }
    /* A reset leaves no connection in TIME_WAIT on the port. */
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
        enum answer answer = port_try(set->numbers[i]);
        /* No answer means a full accept queue or a packet filter; the kernel's table of
         * listeners decides. */
        if (answer == ANSWER_ACCEPTED ||
            (answer == ANSWER_NONE && proc_port_listens(set->numbers[i]))) {
            *ret_port = set->numbers[i];
            return true;
        }
    }
    return false;
}
