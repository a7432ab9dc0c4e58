/* agent/core/ready.h: preparation of the next epoch: reserves ports, answers probes on them and
 * sends READY. */
#ifndef TFE_AGENT_CORE_READY_H
#define TFE_AGENT_CORE_READY_H

#include "agent/core/turn.h"
#include "common/base/id.h"

struct ready {
    uint64_t epoch; /* epoch of the last PREPARE, or 0 if none */
    /* the server requested READY on the current connection; a request on an earlier connection may
     * be obsolete */
    bool asked;
    bool fresh_ports;
    bool answer;   /* the server wants probes on the ports to be answered */
    bool answers;  /* probes on the ports are being answered */
    uint64_t held; /* epoch for which ports are reserved, or 0 */
    uint16_t ports[MSG_NPROC_MAX];
    char host[TFE_HOST_MAX + 1];
};

/* Records a new connection. host NULL keeps the previous address. */
void ready_connected(struct ready *r, const char *host);
/* Returns the address where peers reach the trainers, or NULL if unknown. */
const char *ready_host(const struct ready *r);
void ready_prepare(struct ready *r, struct turn *t, const struct msg_prepare *prepare);
/* Returns TFE_EINVAL if there is not exactly one port for each trainer. */
int ready_ports_held(struct ready *r, struct turn *t, const struct agent_event *event);

/* Requests READY again: the server expects this node in the epoch and has no READY from it. */
void ready_again(struct ready *r, struct turn *t);

/* Reserves the ports, or sends READY if they are reserved. Precondition: nothing runs and the agent
 * is not leaving. */
void ready_say(struct ready *r, struct turn *t, uint64_t table_digest,
               const struct msg_memory *memory);
bool ready_is_asked(const struct ready *r);

/* Returns true if this node sent READY for the epoch and may start it. */
bool ready_for(const struct ready *r, uint64_t epoch);
/* Returns the nproc ports that READY announced. */
const uint16_t *ready_ports(const struct ready *r);
/* Returns true if the rows have the host and ports that READY announced. */
bool ready_offers(const struct ready *r, const struct msg_row *rows, size_t n_rows);
void ready_started(struct ready *r);

/* Cancels the preparation of every epoch up to `highest`. */
void ready_drop(struct ready *r, struct turn *t, uint64_t highest);

#endif
