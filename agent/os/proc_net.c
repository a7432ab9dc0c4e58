/* agent/os/proc_net.c: finds listeners and connections of TCP ports by sock_diag,
 * /proc/net/tcp and /proc/PID/fd. */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/os/proc.h"
#include "common/base/fd.h"

/* Maximum number of listeners of one port: one per trainer process and address family, a few
 * more with SO_REUSEPORT. */
#define INODES_MAX 64

/* Maximum length of a line of the table, which has 150 (IPv4) to 200 (IPv6) characters. */
#define ROW_MAX 512

#define TCP_ESTABLISHED_STATE 0x01
#define TCP_LISTEN_STATE 0x0A

struct inodes {
    uint64_t of[INODES_MAX];
    size_t n;
};

/* One end of a connection as the tables show it: "0100007F:1F90", the address in memory byte
 * order. Of IPv6 only mapped IPv4 addresses are decoded,
 * "0000000000000000FFFF00000100007F:1F90". */
struct end {
    const char *word;
    size_t digits; /* digits of the address */
    struct in_addr address;
    uint16_t port;
};

static bool end_parse(const char *word, struct end *ret)
{
    static const char mapped[] = "0000000000000000FFFF0000";
    const char *colon = strchr(word, ':');
    if (!colon) {
        return false;
    }
    size_t digits = (size_t)(colon - word);
    bool is_v4 = digits == 8 || (digits == 32 && strncmp(word, mapped, sizeof mapped - 1) == 0);
    *ret = (struct end){.word = word,
                        .digits = digits,
                        .address.s_addr = is_v4 ? (in_addr_t)strtoul(colon - 8, NULL, 16) : 0,
                        .port = (uint16_t)strtoul(colon + 1, NULL, 16)};
    return true;
}

/* Parsed line of a table: "  sl  local_address rem_address   st tx:rx tr:tm retrnsmt uid timeout
 * inode ..." (proc_pid_net(5)). */
struct connection {
    struct end local, remote;
    unsigned long state;
    uint64_t inode;
};

/* Calls each for every connection and listener in the table of owner ("self" or a pid). */
static void table_each(const char *owner, const char *table,
                       void (*each)(void *ctx, const struct connection *c), void *ctx)
{
    char row[ROW_MAX];
    snprintf(row, sizeof row, "/proc/%s/net/%s", owner, table);
    FILE *file = fopen(row, "re"); /* NULL if IPv6 is disabled or the process has ended */
    while (file && fgets(row, sizeof row, file)) {
        char words[4][64]; /* both ends, the state and the inode */
        struct connection c;
        if (sscanf(row, "%*s %63s %63s %63s %*s %*s %*s %*s %*s %63s", words[0], words[1], words[2],
                   words[3]) == 4 &&
            end_parse(words[0], &c.local) && end_parse(words[1], &c.remote)) {
            c.state = strtoul(words[2], NULL, 16);
            c.inode = strtoull(words[3], NULL, 10);
            each(ctx, &c);
        }
    }
    if (file) {
        fclose(file);
    }
}

static void inodes_add(struct inodes *inodes, uint64_t inode)
{
    if (inodes->n < INODES_MAX) {
        inodes->of[inodes->n++] = inode;
    }
}

/* Receives the responses of a dump. Returns false if the kernel reports an error. */
static bool diag_receive(int fd, uint16_t port, struct inodes *ret)
{
    for (;;) {
        union {
            char bytes[8192];
            struct nlmsghdr align;
        } buffer;
        ssize_t n = recv(fd, buffer.bytes, sizeof buffer.bytes, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        const struct nlmsghdr *part = &buffer.align;
        for (size_t left = (size_t)n; NLMSG_OK(part, left); part = NLMSG_NEXT(part, left)) {
            const struct inet_diag_msg *socket_found = NLMSG_DATA(part);
            if (part->nlmsg_type == NLMSG_DONE) {
                return true;
            }
            if (part->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
                part->nlmsg_len < NLMSG_LENGTH(sizeof *socket_found)) {
                return false;
            }
            if (ntohs(socket_found->id.idiag_sport) == port) {
                inodes_add(ret, socket_found->idiag_inode);
            }
        }
    }
}

/* Requests only the listeners (sock_diag(7)), because reading the table in /proc visits every
 * bucket, 5 ms on an idle machine. Returns false if /proc must be read instead: no such module,
 * a sandbox, or no IPv6. */
static bool diag_collect(int *diag, int family, uint16_t port, struct inodes *ret)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } dump = {
        .header = {.nlmsg_len = sizeof dump,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .request = {.sdiag_family = (uint8_t)family,
                    .sdiag_protocol = IPPROTO_TCP,
                    .idiag_states = 1U << TCP_LISTEN_STATE,
                    .id.idiag_sport = htons(port)},
    };
    struct timeval timeout = {.tv_usec = 100000};
    size_t before = ret->n;
    if (*diag < 0) {
        *diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        if (*diag < 0) {
            return false;
        }
        setsockopt(*diag, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    }
    if (send(*diag, &dump, sizeof dump, 0) == (ssize_t)sizeof dump &&
        diag_receive(*diag, port, ret)) {
        return true;
    }
    /* A response that arrives late must not be mistaken for that of the next request. */
    close(*diag);
    *diag = -1;
    ret->n = before;
    return false;
}

/* Returns true if owner ("self" or a pid) is in this network namespace, the only one
 * that sock_diag covers. */
static bool shares_network(const char *owner)
{
    char path[64];
    char own[64];
    char other[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", owner);
    ssize_t n = readlink("/proc/self/ns/net", own, sizeof own);
    return n > 0 && readlink(path, other, sizeof other) == n && memcmp(own, other, (size_t)n) == 0;
}

struct listeners {
    uint16_t port;
    struct inodes *inodes;
};

static void note_listener(void *ctx, const struct connection *c)
{
    const struct listeners *search = ctx;
    if (c->state == TCP_LISTEN_STATE && c->local.port == search->port) {
        inodes_add(search->inodes, c->inode);
    }
}

static const struct {
    int number;
    const char *table;
} families[] = {{AF_INET, "tcp"}, {AF_INET6, "tcp6"}};
#define FAMILIES (sizeof families / sizeof families[0])

static void inodes_of_port(int *diag, const char *owner, uint16_t port, struct inodes *ret)
{
    struct listeners search = {.port = port, .inodes = ret};
    bool request = shares_network(owner);
    ret->n = 0;
    for (size_t i = 0; i < FAMILIES; i++) {
        if (!request || !diag_collect(diag, families[i].number, port, ret)) {
            table_each(owner, families[i].table, note_listener, &search);
        }
    }
}

static bool is_match(const struct proc_connections *which, const struct end *local,
                     const struct end *remote)
{
    return (!which->local_port || local->port == which->local_port) &&
           (!which->remote_port || remote->port == which->remote_port) &&
           (!which->remote.s_addr || remote->address.s_addr == which->remote.s_addr) &&
           (!which->is_to_self || (local->digits == remote->digits &&
                                   memcmp(local->word, remote->word, local->digits) == 0));
}

struct count {
    const struct proc_connections *which;
    proc_connection_fn *each;
    void *ctx;
    size_t n;
    struct inodes inodes; /* inodes of the first connections */
};

static void note_connection(void *ctx, const struct connection *c)
{
    struct count *count = ctx;
    if (c->state != TCP_ESTABLISHED_STATE || !is_match(count->which, &c->local, &c->remote)) {
        return;
    }
    count->n++;
    inodes_add(&count->inodes, c->inode);
    if (count->each) {
        count->each(count->ctx, c->remote.address);
    }
}

static void count_all(struct count *count)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        table_each("self", families[i].table, note_connection, count);
    }
}

size_t proc_connections(const struct proc_connections *which, proc_connection_fn *each, void *ctx)
{
    struct count count = {.which = which, .each = each, .ctx = ctx};
    count_all(&count);
    return count.n;
}

bool proc_port_listens(uint16_t port)
{
    struct inodes inodes;
    int diag = -1;
    inodes_of_port(&diag, "self", port, &inodes);
    fd_close(&diag);
    return inodes.n != 0;
}

/* Search for processes that hold some sockets open; ends when n_needed are found. */
struct search {
    struct inodes inodes;
    bool is_held[INODES_MAX];
    size_t n_held;
    size_t n_needed;
    pid_t pid; /* process being searched */
};

static bool search_descriptor(void *ctx, int fd)
{
    static const char scheme[] = "socket:[";
    struct search *search = ctx;
    char path[32];
    char target[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)search->pid, fd);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    if (strncmp(target, scheme, sizeof scheme - 1) != 0) {
        return true;
    }
    uint64_t inode = strtoull(target + sizeof scheme - 1, NULL, 10);
    for (size_t i = 0; i < search->inodes.n; i++) {
        if (search->inodes.of[i] == inode && !search->is_held[i]) {
            search->is_held[i] = true;
            search->n_held++;
        }
    }
    return search->n_held < search->n_needed;
}

static void search_process(struct search *search, pid_t pid)
{
    search->pid = pid;
    if (search->n_held < search->n_needed) {
        /* an unreadable process counts as holding none */
        (void)proc_each_of(pid, "fd", search_descriptor, search);
    }
}

static bool search_pick(void *ctx, pid_t pid, pid_t session)
{
    search_process(ctx, pid);
    return false;
}

/* Searches root and all its descendants. */
static void search_tree(struct search *search, pid_t root)
{
    size_t alive;
    pid_t stuck;
    search_process(search, root);
    if (search->n_held < search->n_needed) {
        /* Processes that cannot be read count as holding none. */
        (void)!proc_signal_descendants(root, 0, search_pick, search, &alive, &stuck);
    }
}

bool proc_descendant_listens(pid_t root, uint16_t port, int *diag)
{
    struct search search = {.n_needed = 1};
    char owner[16];
    snprintf(owner, sizeof owner, "%d", (int)root);
    inodes_of_port(diag, owner, port, &search.inodes);
    /* Called repeatedly while a trainer starts: skip the scan of processes until
     * a listener exists. */
    if (search.inodes.n != 0) {
        search_tree(&search, root);
    }
    return search.n_held != 0;
}

size_t proc_connections_of(pid_t root, const struct proc_connections *which)
{
    struct count count = {.which = which};
    count_all(&count);
    struct search search = {.inodes = count.inodes, .n_needed = count.inodes.n};
    search_tree(&search, root);
    return search.n_held;
}
