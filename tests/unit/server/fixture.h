/* tests/unit/server/fixture.h: a whole server in this process, but for its main: real keys, core,
 * writer thread with a store in memory, pool and sessions, behind a listener on loopback. Clients
 * are channels that speak the protocol. */
#ifndef TFE_TESTS_UNIT_SERVER_FIXTURE_H
#define TFE_TESTS_UNIT_SERVER_FIXTURE_H

#include "server/driver.h"
#include "server/events/counters.h"
#include "server/node_address.h"
#include "server/session.h"
#include "tests/unit/channel/socketpair.h"
#include "tests/unit/folder.h"

struct fixture {
    struct world world; /* its client has an agent's token */
    char dir[FOLDER_BYTES];
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

/* Room for so many agents. ops: what hears of agents' messages in place of the driver, with the
 * driver as its ctx; NULL: the driver. */
void fixture_begin(struct fixture *f, const struct session_ops *ops, uint32_t max_agents);
void fixture_end(struct fixture *f);

/* From now on the client has a new token: of this role, for the jobs of this scope, and for so many
 * nodes (0: any number). */
void fixture_set_token(struct fixture *f, enum principal_role role, const char *scope,
                       uint32_t uses);
#endif
