/* tests/unit/both/parcel.h: what is on its way in a fleet: a message or an event, and when it
 * arrives. */
#ifndef TFE_TESTS_UNIT_BOTH_PARCEL_H
#define TFE_TESTS_UNIT_BOTH_PARCEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent.h"
#include "tests/unit/story.h"

#define NPROC 2u /* trainers of a node, at most */

enum parcel_type {
    PARCEL_NONE,
    PARCEL_TO_SERVER,   /* msg on conn */
    PARCEL_CLOSED,      /* the server's end of conn has read its end */
    PARCEL_TO_AGENT,    /* msg on conn */
    PARCEL_AGENT_EVENT, /* to the process in slot */
    PARCEL_SWEPT,       /* slot: what was to be ended has ended */
    PARCEL_DIES         /* slot: its trainers, all of them, with code */
};

/* A message in a parcel owns what it points to. */
struct parcel {
    enum parcel_type type;
    int64_t due;
    uint64_t order;
    uint32_t conn;
    uint64_t conn_serial;
    uint32_t slot;
    uint64_t life; /* of the process in the slot; PARCEL_DIES: the epoch */
    struct agent_event event;
    struct tfe_msg msg;
    struct msg_exited exited;
    struct msg_row *rows;
    uint16_t ports[NPROC];
    char text[4][300];
    struct parcel *next;
};

static inline void parcel_free(struct parcel *p)
{
    for (uint32_t i = 0; p->rows && i < p->msg.u.table.n_rows; i++) {
        free((void *)(uintptr_t)p->rows[i].host);
    }
    free(p->rows);
    free(p);
}

static inline const char *keep(struct parcel *p, int place, const char *text)
{
    snprintf(p->text[place], sizeof(p->text[place]), "%s", text ? text : "");
    return p->text[place];
}

static inline const uint16_t *keep_ports(struct parcel *p, const uint16_t *ports, size_t n)
{
    memcpy(p->ports, ports, n * sizeof(p->ports[0]));
    return p->ports;
}

static inline void parcel_pack(struct parcel *p, const struct tfe_msg *msg)
{
    p->msg = *msg;
    switch ((int)msg->type) {
    case MSG_JOIN:
        p->msg.u.join.job = keep(p, 0, msg->u.join.job);
        p->msg.u.join.node = keep(p, 1, msg->u.join.node);
        p->msg.u.join.node_name = keep(p, 2, msg->u.join.node_name);
        if (msg->u.join.exited) {
            p->exited = *msg->u.join.exited;
            p->exited.tail = keep(p, 3, msg->u.join.exited->tail);
            p->msg.u.join.exited = &p->exited;
        }
        break;
    case MSG_READY:
        p->msg.u.ready.host = keep(p, 0, msg->u.ready.host);
        p->msg.u.ready.ports = keep_ports(p, msg->u.ready.ports, msg->u.ready.n_ports);
        break;
    case MSG_EXITED:
        p->msg.u.exited.tail = keep(p, 0, msg->u.exited.tail);
        break;
    case MSG_PROCESSES:
        p->msg.u.processes = (struct msg_processes){.guard_pid = 1};
        break;
    case MSG_WELCOME:
        p->msg.u.welcome.node = keep(p, 0, msg->u.welcome.node);
        break;
    case MSG_PROBE:
        p->msg.u.probe.node = keep(p, 0, msg->u.probe.node);
        p->msg.u.probe.host = keep(p, 1, msg->u.probe.host);
        p->msg.u.probe.ports = keep_ports(p, msg->u.probe.ports, msg->u.probe.n_ports);
        break;
    case MSG_FINISH:
        p->msg.u.finish.sentence = keep(p, 0, msg->u.finish.sentence);
        break;
    case MSG_REFUSED:
        p->msg.u.refused.sentence = keep(p, 0, msg->u.refused.sentence);
        break;
    case MSG_TABLE:
        p->rows = calloc(msg->u.table.n_rows, sizeof(*p->rows));
        assert_non_null(p->rows);
        for (size_t i = 0; i < msg->u.table.n_rows; i++) {
            p->rows[i] = msg->u.table.rows[i];
            p->rows[i].host = strdup(msg->u.table.rows[i].host);
        }
        p->msg.u.table.rows = p->rows;
        break;
    }
}

#endif
