/* agent/core/preparation.h: preparation of the next epoch: reserves ports, answers probes on them
 * and sends READY. */
#ifndef TFE_AGENT_CORE_PREPARATION_H
#define TFE_AGENT_CORE_PREPARATION_H

#include "agent/core/step_context.h"
#include "common/base/id.h"

struct preparation {
    uint64_t epoch; /* epoch of the last PREPARE, or 0 if none */
    /* the server requested READY on the current connection; a request on an earlier connection may
     * be obsolete */
    bool is_requested;
    bool fresh_ports;
    bool must_respond;   /* the server wants probes on the ports to be answered */
    bool is_responding;  /* probes on the ports are being answered */
    uint64_t held_epoch; /* epoch for which ports are reserved, or 0 */
    uint16_t ports[MSG_NPROC_MAX];
    char host[TFE_HOST_MAX + 1];
};

/* Records a new connection. host NULL keeps the previous address. */
void preparation_connected(struct preparation *p, const char *host);
/* Returns the address where peers reach the trainers, or NULL if unknown. */
const char *preparation_host(const struct preparation *p);
void preparation_begin(struct preparation *p, struct step_context *t,
                       const struct msg_prepare *prepare);
/* Returns TFE_EINVAL if there is not exactly one port for each trainer. */
int preparation_ports_held(struct preparation *p, struct step_context *t,
                           const struct agent_event *event);

/* Requests READY again: the server expects this node in the epoch and has no READY from it. */
void preparation_request_ready(struct preparation *p, struct step_context *t);

/* Reserves the ports, or sends READY if they are reserved. Precondition: nothing runs and the agent
 * is not leaving. */
void preparation_send_ready(struct preparation *p, struct step_context *t, uint64_t table_digest,
                            const struct msg_memory *memory);
bool preparation_is_requested(const struct preparation *p);

/* Returns true if this node sent READY for the epoch and may start it. */
bool preparation_is_ready_for(const struct preparation *p, uint64_t epoch);
/* Returns the nproc ports that READY announced. */
const uint16_t *preparation_ports(const struct preparation *p);
/* Returns true if the rows have the host and ports that READY announced. */
bool preparation_matches(const struct preparation *p, const struct msg_row *rows, size_t n_rows);
void preparation_started(struct preparation *p);

/* Cancels the preparation of every epoch up to `highest`. */
void preparation_cancel(struct preparation *p, struct step_context *t, uint64_t highest);

#endif
