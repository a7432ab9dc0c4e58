/* agent/reach/proc_net.c: who listens on a TCP port, and who is connected: the kernel's list of
 * listeners, its tables of connections, and /proc/PID/fd. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/reach/proc.h"

/* Listeners on one port: one per trainer process and address family, a few more with SO_REUSEPORT.
 */
#define INODES_MAX 64

/* A row of the table has 150 (IPv4) to 200 (IPv6) characters. */
#define ROW_MAX 512

#define TCP_ESTABLISHED_STATE 0x01
#define TCP_LISTEN_STATE 0x0A

struct inodes {
    uint64_t of[INODES_MAX];
    size_t n;
};

/* "  sl  local_address rem_address   st tx:rx tr:tm retrnsmt uid timeout inode …", proc_pid_net(5);
 * addresses are HEX:PORT. */
static void row_collect(char *row, uint16_t port, struct inodes *ret)
{
    enum { LOCAL = 1, STATE = 3, INODE = 9 };
    char *rest = row;
    const char *local = NULL;
    const char *state = NULL;
    for (int field = 0; field <= INODE; field++) {
        const char *word = strtok_r(field ? NULL : row, " ", &rest);
        if (!word) {
            return;
        }
        if (field == LOCAL) {
            local = strrchr(word, ':');
        } else if (field == STATE) {
            state = word;
        } else if (field == INODE && local && strtoul(local + 1, NULL, 16) == port &&
                   strtoul(state, NULL, 16) == TCP_LISTEN_STATE && ret->n < INODES_MAX) {
            ret->of[ret->n++] = strtoull(word, NULL, 10);
        }
    }
}

static void table_collect(const char *path, uint16_t port, struct inodes *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return; /* no IPv6 here, or the process is gone */
    }
    char text[32768];
    size_t held = 0;
    for (;;) {
        ssize_t n = read(fd, text + held, sizeof text - held);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        held += (size_t)n;
        char *start = text;
        char *end;
        while ((end = memchr(start, '\n', held - (size_t)(start - text)))) {
            *end = '\0';
            row_collect(start, port, ret);
            start = end + 1;
        }
        held -= (size_t)(start - text);
        if (held > ROW_MAX) {
            break; /* not the table we know */
        }
        memmove(text, start, held);
    }
    close(fd);
}

/* Takes the answers to a dump. False: the kernel cannot say. */
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
            if (ntohs(socket_found->id.idiag_sport) == port && ret->n < INODES_MAX) {
                ret->of[ret->n++] = socket_found->idiag_inode;
            }
        }
    }
}

/* Asks for the listeners alone, sock_diag(7): the table in /proc walks every bucket of every
 * connection, 5 ms on an idle machine. False: ask /proc (no such module, a sandbox, no IPv6). */
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
    struct timeval patience = {.tv_usec = 100000};
    size_t before = ret->n;
    if (*diag < 0) {
        *diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        if (*diag < 0) {
            return false;
        }
        setsockopt(*diag, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    if (send(*diag, &dump, sizeof dump, 0) == (ssize_t)sizeof dump &&
        diag_receive(*diag, port, ret)) {
        return true;
    }
    /* Whatever answer is still on its way belongs to this question, and not to the next. */
    close(*diag);
    *diag = -1;
    ret->n = before;
    return false;
}

/* Whether owner ("self" or a pid) is in our network namespace: sock_diag answers for that only. */
static bool shares_network(const char *owner)
{
    char path[64];
    char own[64];
    char other[64];
    snprintf(path, sizeof path, "/proc/%s/ns/net", owner);
    ssize_t n = readlink("/proc/self/ns/net", own, sizeof own);
    return n > 0 && readlink(path, other, sizeof other) == n && memcmp(own, other, (size_t)n) == 0;
}

static void inodes_of_port(int *diag, const char *owner, uint16_t port, struct inodes *ret)
{
    static const struct {
        int family;
        const char *table;
    } families[] = {{AF_INET, "tcp"}, {AF_INET6, "tcp6"}};
    bool ask = shares_network(owner);
    ret->n = 0;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        char path[64];
        if (!ask || !diag_collect(diag, families[i].family, port, ret)) {
            snprintf(path, sizeof path, "/proc/%s/net/%s", owner, families[i].table);
            table_collect(path, port, ret);
        }
    }
}

/* An end of a connection as the tables show it: "0100007F:1F90", the address as it lies in memory;
 * of IPv6 only what carries IPv4 has one, "0000000000000000FFFF00000100007F:1F90". */
struct end {
    const char *word;
    size_t digits; /* of the address */
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

static bool is_wanted(const struct proc_connections *which, const struct end *local,
                      const struct end *remote)
{
    return (!which->local_port || local->port == which->local_port) &&
           (!which->remote_port || remote->port == which->remote_port) &&
           (!which->remote.s_addr || remote->address.s_addr == which->remote.s_addr) &&
           (!which->is_to_self || (local->digits == remote->digits &&
                                   memcmp(local->word, remote->word, local->digits) == 0));
}

/* Goes through both tables; ret_inodes (NULL: nobody asks) gets the first INODES_MAX. */
static size_t connections(const struct proc_connections *which, proc_connection_fn *each, void *ctx,
                          struct inodes *ret_inodes)
{
    static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    size_t n = 0;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        FILE *file = fopen(tables[i], "re");
        char row[ROW_MAX];
        while (file && fgets(row, sizeof row, file)) {
            char words[2][64];
            unsigned state;
            uint64_t inode;
            struct end local;
            struct end remote;
            if (sscanf(row, "%*s %63s %63s %x %*s %*s %*s %*s %*s %" SCNu64, words[0], words[1],
                       &state, &inode) != 4 ||
                state != TCP_ESTABLISHED_STATE || !end_parse(words[0], &local) ||
                !end_parse(words[1], &remote) || !is_wanted(which, &local, &remote)) {
                continue;
            }
            n++;
            if (each) {
                each(ctx, remote.address);
            }
            if (ret_inodes && ret_inodes->n < INODES_MAX) {
                ret_inodes->of[ret_inodes->n++] = inode;
            }
        }
        if (file) {
            fclose(file);
        }
    }
    return n;
}

size_t proc_connections(const struct proc_connections *which, proc_connection_fn *each, void *ctx)
{
    return connections(which, each, ctx, NULL);
}

bool proc_port_listens(uint16_t port)
{
    struct inodes inodes;
    int diag = -1;
    inodes_of_port(&diag, "self", port, &inodes);
    if (diag >= 0) {
        close(diag);
    }
    return inodes.n != 0;
}

/* Which of some sockets are held open by the processes that are looked at, until so many are
 * wanted. */
struct search {
    struct inodes inodes;
    bool is_held[INODES_MAX];
    size_t n_held;
    size_t n_wanted;
};

static void search_process(struct search *search, pid_t pid)
{
    static const char scheme[] = "socket:[";
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = search->n_held < search->n_wanted ? opendir(path) : NULL;
    if (!dir) {
        return;
    }
    const struct dirent *entry;
    while (search->n_held < search->n_wanted && (entry = readdir(dir))) {
        char target[64];
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        if (n <= 0) {
            continue;
        }
        target[n] = '\0';
        if (strncmp(target, scheme, sizeof scheme - 1) != 0) {
            continue;
        }
        uint64_t inode = strtoull(target + sizeof scheme - 1, NULL, 10);
        for (size_t i = 0; i < search->inodes.n; i++) {
            if (search->inodes.of[i] == inode && !search->is_held[i]) {
                search->is_held[i] = true;
                search->n_held++;
            }
        }
    }
    closedir(dir);
}

static bool search_pick(void *ctx, pid_t pid, pid_t session)
{
    (void)session;
    search_process(ctx, pid);
    return false;
}

/* Looks at root and all below it. */
static void search_tree(struct search *search, pid_t root)
{
    size_t alive;
    pid_t stuck;
    search_process(search, root);
    if (search->n_held < search->n_wanted) {
        /* What cannot be read holds nothing. */
        (void)!proc_signal_descendants(root, 0, search_pick, search, &alive, &stuck);
    }
}

bool proc_descendant_listens(pid_t root, uint16_t port, int *diag)
{
    struct search search = {.n_wanted = 1};
    char owner[16];
    snprintf(owner, sizeof owner, "%d", (int)root);
    inodes_of_port(diag, owner, port, &search.inodes);
    /* Asked many times while a trainer starts: the walk over processes only once there is
     * something. */
    if (search.inodes.n != 0) {
        search_tree(&search, root);
    }
    return search.n_held != 0;
}

size_t proc_connections_of(pid_t root, const struct proc_connections *which)
{
    struct search search = {.n_wanted = 0};
    if (connections(which, NULL, NULL, &search.inodes) != 0) {
        search.n_wanted = search.inodes.n;
        search_tree(&search, root);
    }
    return search.n_held;
}
