/* bench/fleet.h: thousands of simulated agents in one process: real sockets, keys and leases
 * through the project's own client code, no trainers. */
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
    uint32_t n; /* agents, numbered from 0; none is connected at first */
    uint32_t
        first_label; /* number of agent 0 in labels and ports, where several fleets share a job */
    uint32_t min_nodes, max_nodes;
    uint32_t gather_ms;
    uint32_t connecting_max; /* connections in their handshake at a time */
    bool silent;             /* shows its token, and never JOINs */
};

/* What has happened so far. Times in microseconds. */
struct fleet_facts {
    uint32_t connected;   /* WELCOME received, and still there */
    uint32_t started;     /* in the newest epoch: its START received, its table complete */
    uint64_t epoch;       /* the newest anybody was started in */
    uint64_t epochs_seen; /* different ones */
    uint32_t stopped;     /* STOPs received, ever */
    uint32_t wrong;       /* tables that were not what their START said; always 0 */
    uint64_t renewed;     /* answers since the mark */
};

/* TFE_ENOMEM. */
int fleet_new(struct event_base *base, const struct fleet_config *config,
              struct fleet **ret) TFE_MUST_CHECK;
void fleet_free(struct fleet *f);

/* Connects and joins agents from..to-1, as fast as connecting_max allows. They connect again by
 * themselves when the connection ends, spread as WELCOME said. */
void fleet_connect(struct fleet *f, uint32_t from, uint32_t to);

/* Closes an agent's connection without a word; whoever probes its ports is told "refused".
 * Connected again, it is another process. */
void fleet_lose(struct fleet *f, uint32_t agent);
/* … with a GOODBYE. */
void fleet_leave(struct fleet *f, uint32_t agent);

/* From now on every agent has `window` renewals under way at any moment, together (not each); 0:
 * the renewals that leases need, no others. */
void fleet_renew(struct fleet *f, uint32_t window);
/* Every agent renews this often instead of as told; 0: as told. */
void fleet_pace(struct fleet *f, uint32_t interval_ms);

/* Starts the counts and latencies anew. */
void fleet_mark(struct fleet *f);
void fleet_look(const struct fleet *f, struct fleet_facts *ret);
/* Received since the mark, by those who are still connected. */
uint64_t fleet_bytes(const struct fleet *f);
/* Quantile q (0..1) of the answer times of renewals since the mark, in us; 0 if there were none. */
uint32_t fleet_latency_us(struct fleet *f, double q);
/* Most WELCOMEs in one second since the mark, and how many in all. */
void fleet_welcomes(const struct fleet *f, uint32_t *ret_busiest, uint32_t *ret_all);
/* When the last WELCOME came, us after the mark. */
uint64_t fleet_last_welcome_us(const struct fleet *f);
/* When the last agent got START of the newest epoch, and quantile q of all, us after the mark. */
uint64_t fleet_started_us(struct fleet *f, double q);

#endif
