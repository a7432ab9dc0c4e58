/* server/ctl/status.h: what status and nodes share: the question, a node's line and its object. */
#ifndef TFE_SERVER_CTL_STATUS_H
#define TFE_SERVER_CTL_STATUS_H

#include "common/base/error.h"
#include "common/base/json.h"
#include "common/base/msg.h"
#include "server/ctl/settings.h"
#include "server/ctl/snapshot.h"
#include "server/ctl/table.h"

/* Asks for one job (job NULL: for all). As request_run; the snapshot is the caller's to end. */
int status_ask(const struct ctl_settings *settings, const char *job,
               struct snapshot *ret) TFE_MUST_CHECK;

/* Cells: name, node id, role, rank, address, pid. TFE_ENOMEM. */
int status_add_cells(struct table *t, const struct msg_status_node *node) TFE_MUST_CHECK;

/* One object, the next of an array; with the job's name in it unless that is NULL. */
void status_write_node(struct json *j, const struct msg_status_node *node, const char *job);

#endif
