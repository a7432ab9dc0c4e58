/* agent/os/responder.h: answers probes on ports that no trainer uses yet, with this node's id.
 */
#ifndef TFE_AGENT_OS_RESPONDER_H
#define TFE_AGENT_OS_RESPONDER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/reason.h"

struct event_base;

/* PROTOCOL.md section 9: "tfe1 node ID\n", and the connection ends. */
#define RESPONDER_LINE_MAX (sizeof("tfe1 node \n") + TFE_ID_MAX)

/* The line that the node with this id answers with; NUL-terminated. Returns its length. */
size_t responder_line(const char *node, char ret[RESPONDER_LINE_MAX]);

/* A second socket on each port that ports.h holds; unlike that one it listens. It must be closed
 * before trainers of any node may connect here: the kernel shares connections out between all who
 * listen. */
struct responder;

/* TFE_ENOMEM. node is copied. Closed. */
int responder_new(struct event_base *base, const char *node, struct responder **ret) TFE_MUST_CHECK;
void responder_free(struct responder *r);

/* n at most MSG_NPROC_MAX; what was open before is closed. TFE_ESYS with why: nothing is open. */
int responder_open(struct responder *r, const uint16_t *ports, size_t n,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* When this returns nobody listens here any more. */
void responder_close(struct responder *r);

#endif
