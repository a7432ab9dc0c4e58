/* agent/os/responder.h: answers probes with this node's id on ports that no trainer uses yet. */
#ifndef TFE_AGENT_OS_RESPONDER_H
#define TFE_AGENT_OS_RESPONDER_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/text/reason.h"

struct event_base;

/* Maximum length of the answer "tfe1 node ID\n" (PROTOCOL.md section 9). */
#define RESPONDER_LINE_MAX (sizeof("tfe1 node \n") + TFE_ID_MAX)

/* Writes the line that the node with this id answers with. Returns its length. */
size_t responder_line(const char *node, char ret[RESPONDER_LINE_MAX]);

/* Listening sockets on the ports that ports.h reserves. Close the responder before any trainer
 * may connect to these ports: the kernel distributes connections among all listeners of a port. */
struct responder;

/* Creates a closed responder; node is copied. */
struct responder *responder_new(struct event_base *base, const char *node);
void responder_free(struct responder *r);

/* Listens on up to MSG_NPROC_MAX ports, after closing those opened before. Returns TFE_ESYS with
 * reason set and nothing open. */
int responder_open(struct responder *r, const uint16_t *ports, size_t n,
                   struct tfe_reason *reason) TFE_MUST_CHECK;

/* Closes all listening sockets before it returns. */
void responder_close(struct responder *r);

#endif
