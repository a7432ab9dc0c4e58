/* tests/unit/server/fixture.h: a whole server in the test process, except for its main: real keys,
 * core, writer thread with an in-memory store, pool and sessions, behind a loopback listener.
 * Clients are channels that speak the protocol. */
#ifndef TFE_TESTS_UNIT_SERVER_FIXTURE_H
#define TFE_TESTS_UNIT_SERVER_FIXTURE_H

#include "server/driver.h"
#include "server/events/counters.h"
#include "server/node_address.h"
#include "server/session.h"
#include "tests/unit/channel/socketpair.h"
#include "tests/unit/folder.h"

struct fixture {
    struct world world; /* loop and first client, which has an agent token */
    char dir[FOLDER_BYTES];
    char store_file[FOLDER_BYTES + 32];
    const char *store_path; /* file of the store; NULL if it is in memory */
    const struct session_ops *ops;
    uint32_t max_agents;
    struct keys *keys;
    struct deny_list *bans;
    struct events *events;
    struct series *series;
    struct reports *reports;
    struct pool *pool;
    struct driver *driver;
    struct sessions *all;
    struct listener *listener;
    struct counters gauges;
    struct addresses allowed;        /* 192.0.2.0/26 */
    char token_key[MSG_KEY_HEX + 1]; /* id of the client's token */
};

/* Starts a server for max_agents agents. ops receives the messages of agents instead of the
 * driver, with the driver as its ctx; NULL selects the driver. */
void fixture_begin(struct fixture *f, const struct session_ops *ops, uint32_t max_agents);
/* The same with the store in a file of this name, for fixture_restart; NULL for in memory. */
void fixture_begin_in(struct fixture *f, const char *store, const struct session_ops *ops,
                      uint32_t max_agents);
/* Ends the server and starts another one with the same keys and store. Clients lose their
 * connections. */
void fixture_restart(struct fixture *f);
void fixture_end(struct fixture *f);

/* Issues a new token for the client, with this role, job scope and number of nodes (0 for no
 * limit). */
void fixture_set_token(struct fixture *f, enum principal_role role, const char *scope,
                       uint32_t uses);
#endif
