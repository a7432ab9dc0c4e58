/* bench/fleet.h: thousands of simulated agents in one process: real sockets, keys and leases
 * through the project's own client code, without trainers. */
#ifndef TFE_BENCH_FLEET_H
#define TFE_BENCH_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/time.h"
#include "common/credentials/join.h"

struct event_base;
struct fleet;

struct fleet_config {
    const struct join_info *info; /* borrowed */
    const char *job;
    uint32_t n; /* number of agents (numbered from 0), none of which is connected at first */
    uint32_t first_label; /* number of agent 0 in labels and ports, if several fleets share a job */
    uint32_t min_nodes, max_nodes;
    uint32_t gather_ms;
    uint32_t connecting_max; /* maximum number of simultaneous handshakes */
    bool silent;             /* true shows the token and never sends JOIN */
};

/* Counters of a fleet. Times are in microseconds. */
struct fleet_facts {
    uint32_t connected;   /* agents that have received WELCOME and are still connected */
    uint32_t started;     /* agents with START and the complete table of the newest epoch */
    uint64_t epoch;       /* newest epoch in which any agent was started */
    uint64_t epochs_seen; /* number of different epochs */
    uint32_t stopped;     /* STOPs received in total */
    uint32_t wrong;       /* tables that did not match their START; always 0 */
    uint64_t renewed;     /* renewals answered since the mark */
};

/* Returns 0 or TFE_ENOMEM. */
int fleet_new(struct event_base *base, const struct fleet_config *config,
              struct fleet **ret) TFE_MUST_CHECK;
void fleet_free(struct fleet *f);

/* Connects and joins agents from..to-1, at most connecting_max at a time. When a connection ends,
 * the agent reconnects by itself, spread as WELCOME said. */
void fleet_connect(struct fleet *f, uint32_t from, uint32_t to);

/* Closes an agent's connection without a message; probes of its ports get "refused". When it
 * connects again, it is another process. */
void fleet_lose(struct fleet *f, uint32_t agent);
/* Sends GOODBYE and closes the agent's connection. */
void fleet_leave(struct fleet *f, uint32_t agent);

/* Keeps `window` renewals under way over all agents; 0 makes only the renewals that leases need. */
void fleet_renew(struct fleet *f, uint32_t window);
/* Makes every agent renew at this interval; 0 restores the interval that the server sent. */
void fleet_pace(struct fleet *f, uint32_t interval_ms);

/* Resets the counters and latencies. */
void fleet_mark(struct fleet *f);
void fleet_look(const struct fleet *f, struct fleet_facts *ret);
/* Returns the bytes received since the mark by agents that are still connected. */
uint64_t fleet_bytes(const struct fleet *f);
/* Returns quantile q (0..1) of the renewal times since the mark, in us, or 0 if there were none. */
uint32_t fleet_latency_us(struct fleet *f, double q);
/* Returns the largest number of WELCOMEs in one second since the mark, and their total number. */
void fleet_welcomes(const struct fleet *f, uint32_t *ret_busiest, uint32_t *ret_all);
/* Returns the time of the last WELCOME, in us after the mark. */
uint64_t fleet_last_welcome_us(const struct fleet *f);
/* Returns quantile q of the times at which agents received START of the newest epoch (1: the last
 * agent), in us after the mark. */
uint64_t fleet_started_us(struct fleet *f, double q);

#endif
