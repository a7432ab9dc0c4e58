/* agent/core/ready.h: the epoch that the server prepares: ports held for it, probes of them
 * answered, READY. */
#ifndef TFE_AGENT_CORE_READY_H
#define TFE_AGENT_CORE_READY_H

#include "agent/core/turn.h"
#include "common/base/id.h"

struct ready {
    uint64_t epoch; /* the server wants READY for this one; 0 none */
    bool asked; /* … and has said so on this connection: what an earlier one wanted may be over */
    bool fresh_ports;
    bool answer;   /* the server wants probes of the ports to be answered */
    bool answers;  /* they are */
    uint64_t held; /* the epoch that ports are held for */
    uint16_t ports[MSG_NPROC_MAX];
    char host[TFE_HOST_MAX + 1];
};

/* host NULL: the one before stays. */
void ready_connected(struct ready *r, const char *host);
/* Where peers reach the trainers; NULL: that is not known. */
const char *ready_host(const struct ready *r);
void ready_prepare(struct ready *r, struct turn *t, const struct msg_prepare *prepare);
/* TFE_EINVAL: not one for each trainer. */
int ready_ports_held(struct ready *r, struct turn *t, const struct agent_event *event);

/* The server counts on this node for the epoch and lacks its READY, whatever connection it was
 * asked on. */
void ready_again(struct ready *r, struct turn *t);

/* Holds the ports, or says READY if they are held. Precondition: nothing else stands against it. */
void ready_say(struct ready *r, struct turn *t, uint64_t table_digest,
               const struct msg_memory *memory);
bool ready_is_asked(const struct ready *r);

/* Whether this node was READY for the epoch and may start it. */
bool ready_for(const struct ready *r, uint64_t epoch);
/* … with these ports, nproc of them. */
const uint16_t *ready_ports(const struct ready *r);
/* … and whether the rows of its trainers are what it has said then. */
bool ready_offers(const struct ready *r, const struct msg_row *rows, size_t n_rows);
void ready_started(struct ready *r);

/* Epochs up to this one are over. */
void ready_drop(struct ready *r, struct turn *t, uint64_t highest);

#endif
