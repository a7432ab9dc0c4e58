/* bench/load.c: the load generator: executes commands from stdin on a fleet of simulated agents and
 * prints one JSON object for each.
 *
 * Usage: tfe-bench-load --state-dir DIR --agents N [--nnodes MIN:MAX] [--job NAME] [--first N]
 * [--gather MS] [--silent 1] [--sources N] (N source addresses in turn, 127.0.0.1 and up)
 * Commands, one per line (agents are numbered from 0; TIMEOUT in seconds):
 *   connect FROM TO            joins these agents and returns at once
 *   mark                       resets counts, latencies and clocks
 *   connected N TIMEOUT        waits until N agents hold a lease
 *   started N TIMEOUT          waits until N agents have received START of the newest epoch
 *   newer EPOCH N TIMEOUT      the same, of an epoch above EPOCH
 *   window N                   keeps N renewals under way, over all agents
 *   pace MS                    makes every agent renew at this interval
 *   run SECONDS                runs the loop
 *   doze SECONDS               runs the loop, but polls the sockets only every few milliseconds
 *   lose AGENT, leave AGENT    ends an agent without and with a GOODBYE
 *   quit */
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench/fleet.h"
#include "bench/machine.h"
#include "common/cli/log.h"

struct load {
    struct event_base *base;
    struct fleet *fleet;
    uint64_t mark_us;
    bool over; /* true once the present wait has timed out */
};

/* Number of source addresses. libevent makes the connections and cannot bind a source address; it
 * calls the connect below. */
static uint32_t sources = 1;

int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t n)
{
    static uint32_t turn;
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK + turn++ % sources)};
    const int on = 1; /* the port is chosen in connect(2), when both ends are known */
    if (sources > 1 && to.__sockaddr__->sa_family == AF_INET &&
        (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) ||
         bind(fd, (const struct sockaddr *)&from, sizeof from))) {
        return -1;
    }
    return (int)syscall(SYS_connect, fd, to.__sockaddr__, n);
}

static void on_over(evutil_socket_t fd, short what, void *ctx)
{
    struct load *load = ctx;
    (void)fd;
    (void)what;
    load->over = true;
}

enum goal { GOAL_TIME, GOAL_CONNECTED, GOAL_STARTED };

static bool is_reached(const struct load *load, enum goal goal, uint64_t epoch, uint32_t n)
{
    struct fleet_facts facts;
    if (goal == GOAL_TIME) {
        return false;
    }
    fleet_look(load->fleet, &facts);
    if (goal == GOAL_CONNECTED) {
        return facts.connected >= n;
    }
    return facts.epoch > epoch && facts.started >= n;
}

static void report(struct load *load, bool reached)
{
    struct fleet_facts facts;
    uint32_t busiest;
    uint32_t welcomes;
    fleet_look(load->fleet, &facts);
    fleet_welcomes(load->fleet, &busiest, &welcomes);
    (void)printf("{\"reached\": %s, \"us\": %llu, \"connected\": %u, \"started\": %u, "
                 "\"epoch\": %llu, \"epochs_seen\": %llu, \"stopped\": %u, \"wrong\": %u, "
                 "\"bytes\": %llu, \"renewed\": %llu, \"p50_us\": %u, \"p99_us\": %u, "
                 "\"started_p99_us\": %llu, \"started_last_us\": %llu, \"welcomes\": %u, "
                 "\"busiest_second\": %u, \"last_welcome_us\": %llu}\n",
                 reached ? "true" : "false", (unsigned long long)(machine_us() - load->mark_us),
                 facts.connected, facts.started, (unsigned long long)facts.epoch,
                 (unsigned long long)facts.epochs_seen, facts.stopped, facts.wrong,
                 (unsigned long long)fleet_bytes(load->fleet), (unsigned long long)facts.renewed,
                 fleet_latency_us(load->fleet, 0.5), fleet_latency_us(load->fleet, 0.99),
                 (unsigned long long)fleet_started_us(load->fleet, 0.99),
                 (unsigned long long)fleet_started_us(load->fleet, 1), welcomes, busiest,
                 (unsigned long long)fleet_last_welcome_us(load->fleet));
    (void)fflush(stdout);
}

/* Runs the loop until the goal is reached or the time is over. */
static void go_on(struct load *load, enum goal goal, uint64_t epoch, uint32_t n, double seconds)
{
    struct event timer;
    const struct timeval tv = {.tv_sec = (time_t)seconds,
                               .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)};
    load->over = false;
    (void)event_assign(&timer, load->base, -1, 0, on_over, load);
    (void)evtimer_add(&timer, &tv);
    bool reached = is_reached(load, goal, epoch, n);
    while (!load->over && !reached) {
        (void)event_base_loop(load->base, EVLOOP_ONCE);
        reached = is_reached(load, goal, epoch, n);
    }
    (void)event_del(&timer);
    report(load, reached || goal == GOAL_TIME);
}

static void doze(struct load *load, double seconds)
{
    const double end = machine_s() + seconds;
    while (machine_s() < end) {
        machine_doze();
        (void)event_base_loop(load->base, EVLOOP_NONBLOCK);
    }
}

static bool execute_order(struct load *load, const char *line)
{
    unsigned a;
    unsigned b;
    unsigned long long epoch;
    double seconds;
    if (sscanf(line, "connect %u %u", &a, &b) == 2) {
        fleet_connect(load->fleet, a, b);
    } else if (strncmp(line, "mark", 4) == 0) {
        load->mark_us = machine_us();
        fleet_mark(load->fleet);
    } else if (sscanf(line, "connected %u %lf", &a, &seconds) == 2) {
        go_on(load, GOAL_CONNECTED, 0, a, seconds);
        return true;
    } else if (sscanf(line, "started %u %lf", &a, &seconds) == 2) {
        go_on(load, GOAL_STARTED, 0, a, seconds);
        return true;
    } else if (sscanf(line, "newer %llu %u %lf", &epoch, &a, &seconds) == 3) {
        go_on(load, GOAL_STARTED, epoch, a, seconds);
        return true;
    } else if (sscanf(line, "window %u", &a) == 1) {
        fleet_renew(load->fleet, a);
    } else if (sscanf(line, "pace %u", &a) == 1) {
        fleet_pace(load->fleet, a);
    } else if (sscanf(line, "run %lf", &seconds) == 1) {
        go_on(load, GOAL_TIME, 0, 0, seconds);
        return true;
    } else if (sscanf(line, "doze %lf", &seconds) == 1) {
        doze(load, seconds);
    } else if (sscanf(line, "lose %u", &a) == 1) {
        fleet_lose(load->fleet, a);
    } else if (sscanf(line, "leave %u", &a) == 1) {
        fleet_leave(load->fleet, a);
    } else if (strncmp(line, "quit", 4) == 0) {
        return false;
    } else {
        (void)fprintf(stderr, "no such command: %s", line);
        return false;
    }
    report(load, true);
    return true;
}

/* Reads commands inside the loop, so that leases are renewed between them. */
static void listen_to_commands(struct load *load)
{
    char line[256];
    size_t n = 0;
    (void)fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
    for (;;) {
        struct event readable;
        load->over = false;
        (void)event_assign(&readable, load->base, 0, EV_READ, on_over, load);
        (void)event_add(&readable, NULL);
        while (!load->over) {
            (void)event_base_loop(load->base, EVLOOP_ONCE);
        }
        (void)event_del(&readable);
        const ssize_t got = read(0, line + n, sizeof line - 1 - n);
        if (got <= 0) {
            return;
        }
        n += (size_t)got;
        line[n] = '\0';
        char *at = line;
        for (char *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
            *end = '\0';
            if (!execute_order(load, at)) {
                return;
            }
        }
        n = strlen(at);
        memmove(line, at, n + 1);
    }
}

int main(int argc, char **argv)
{
    struct join_config join = {.roles = {PRINCIPAL_AGENT}, .n_roles = 1};
    struct fleet_config config = {.job = "bench",
                                  .n = 1,
                                  .min_nodes = 1,
                                  .max_nodes = 1,
                                  .gather_ms = 3000,
                                  .connecting_max = 512};
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--silent") == 0) {
            config.silent = strcmp(value, "1") == 0;
            continue;
        }
        if (strcmp(argv[i], "--state-dir") == 0) {
            join.state_dir = value;
        } else if (strcmp(argv[i], "--agents") == 0) {
            config.n = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--nnodes") == 0) {
            if (sscanf(value, "%u:%u", &config.min_nodes, &config.max_nodes) != 2) {
                return 2;
            }
        } else if (strcmp(argv[i], "--job") == 0) {
            config.job = value;
        } else if (strcmp(argv[i], "--first") == 0) {
            config.first_label = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--sources") == 0) {
            sources = (uint32_t)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--gather") == 0) {
            config.gather_ms = (uint32_t)strtoul(value, NULL, 10);
        } else {
            (void)fprintf(stderr, "tfe-bench-load: no option %s\n", argv[i]);
            return 2;
        }
    }
    (void)signal(SIGPIPE, SIG_IGN);
    machine_raise_files();
    struct join_info info;
    struct tfe_reason reason = {.text = ""};
    if (sodium_init() < 0 || join_find(&join, &info, &reason)) {
        (void)fprintf(stderr, "tfe-bench-load: %s\n", reason.text);
        return 1;
    }
    /* Without this limit the loop polls all 10,000 sockets for every 64 answers, and the benchmark
     * would measure epoll. */
    struct event_config *how = event_config_new();
    const struct timeval turn = {.tv_usec = 50000};
    (void)event_config_set_max_dispatch_interval(how, &turn, -1, 0);
    (void)event_config_set_flag(how, EVENT_BASE_FLAG_NOLOCK);
    struct load load = {.base = event_base_new_with_config(how), .mark_us = machine_us()};
    event_config_free(how);
    config.info = &info;
    if (!load.base || fleet_new(load.base, &config, &load.fleet)) {
        (void)fprintf(stderr, "tfe-bench-load: out of memory\n");
        return 1;
    }
    (void)printf("{\"ready\": true}\n");
    (void)fflush(stdout);
    listen_to_commands(&load);
    fleet_free(load.fleet);
    event_base_free(load.base);
    join_done(&info);
    return 0;
}
