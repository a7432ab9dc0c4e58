/* tests/unit/server_core/server_fixture.h: a rendezvous core with agents played by hand, in virtual
 * time. What the core wants done is written down as text, one action a line:
 *
 *     2:START epoch=1 rank=1 world=2 nodes=2 cause=start        a message to session 2
 *     2:TABLE epoch=1 b1:1001 a1:1000                           hosts and ports by rank
 *     2:CLOSE
 *     ~switch job=j node=- epoch=1 number=0 joined              a trace
 */
#ifndef TFE_TESTS_UNIT_SERVER_CORE_SERVER_FIXTURE_H
#define TFE_TESTS_UNIT_SERVER_CORE_SERVER_FIXTURE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/message/cluster_table.h"
#include "server/core/rdzv.h"
#include "tests/job_options.h"
#include "tests/unit/base/flaky.h"
#include "tests/unit/test_runner.h"

#define SESSIONS 64u
#define TTL_MS 10000
/* End of the ttl, and of the fences of one and of several members, as the server computes them. */
#define TTL_HELD_MS 11110
#define FENCE_ONE_HELD_MS 132770
#define FENCE_HELD_MS 331850

/* A record as it would be read back. */
struct disk {
    struct rdzv_record record;
    struct rdzv_member members[8];
    uint16_t ports[8][4];
    char text[8][3][TFE_HOST_MAX + 1];
    struct tfe_id known_to[8][RDZV_KNOWN_TO_MAX];
    char sentence[MSG_SENTENCE_MAX];
    char run_key[TFE_ID_MAX + 1];
};

#define WORLD_BEGINS 1000000

struct world {
    bool shows_ledger;
    struct flaky flaky;
    struct tfe_mem mem;
    struct rdzv *r;
    int64_t now;
    int64_t wall; /* wall-clock time; 0: the core is not told */
    int64_t deadline;
    struct msg_join join;                /* contents of the next JOIN, except the node's id */
    char node[SESSIONS][TFE_ID_MAX + 1]; /* node of each session */
    bool renews[SESSIONS];               /* the node renews while time passes */
    int64_t renew_at[SESSIONS];
    uint64_t renewals;
    bool holds_writes; /* records are not confirmed until write_ends() */
    bool holds_leader; /* rank 0 does not report LISTENING by itself */
    uint64_t write;    /* sequence number of the last record to be written */
    char write_job[TFE_ID_MAX + 1];
    struct disk *disk; /* where the last written record is copied to, or NULL */
    bool retries;      /* after TFE_ENOMEM the same event is passed again, as the I/O layer does */
    /* nodes answer probes when they are told to, as agents do; otherwise they are READY without */
    bool answers;
    bool asked[SESSIONS];               /* the node was told to answer probes */
    bool answering[SESSIONS];           /* the node still answers probes, by its last READY */
    struct msg_memory memory[SESSIONS]; /* state kept in memory, as READY reports it */
    /* number of the last PROBE that the node has not answered; 0 if none */
    uint64_t probe[SESSIONS];
    bool quiet; /* renewals are not logged */
    char *log;  /* log of the last act */
    size_t n_log;
    size_t cap_log;
    uint64_t history; /* FNV-1a hash of everything that was ever logged */
    uint64_t failed;  /* number of steps that ran out of memory */
};

/* The disk confirms the newest record, or reports a failure. */
int write_ends(struct world *w, enum rdzv_event_type how);

/* Confirms records and reports rank 0's LISTENING at once, unless the test holds them. */
int follow(struct world *w, bool wrote, uint32_t leader, uint64_t epoch);
int step(struct world *w, const struct rdzv_event *event);
void forget(struct world *w);

/* --- acts: each clears the log of the previous one -------------------------------------------- */

int say(struct world *w, uint32_t session, const struct tfe_msg *msg);
int try_join(struct world *w, uint32_t session, const char *node);
void join(struct world *w, uint32_t session, const char *node);

/* Sends READY. The node's address is its id, followed by the epoch's parity unless it answers
 * probes; its ports count up from 1000 + 100 × session. */
int try_ready(struct world *w, uint32_t session, uint64_t epoch);
void ready(struct world *w, uint32_t session, uint64_t epoch);

/* The node of the session reports the result of the last PROBE that it was sent. */
void probed(struct world *w, uint32_t session, enum tfe_probe_result result);
void exited_as(struct world *w, uint32_t session, struct msg_exited exited);
void exited(struct world *w, uint32_t session, uint64_t epoch, uint32_t code);
void trainer_listens(struct world *w, uint32_t session, uint64_t epoch);

/* Does what an agent does on STOP and PREPARE: its trainers have ended, and it is READY. */
void stopped_and_ready(struct world *w, uint32_t session, uint64_t epoch);
void goodbye(struct world *w, uint32_t session);
void cut(struct world *w, uint32_t session);

/* Lets time pass: ticks when the core asks for one, and renewals of nodes with renews set. */
void pass_until(struct world *w, int64_t until);
void pass(struct world *w, int64_t ms);

/* --- observations ----------------------------------------------------------------------------- */

#define assert_saw(w, part)                                                                        \
    do {                                                                                           \
        if (!strstr((w)->log, (part))) {                                                           \
            fail_msg("not seen: %s\nbut:\n%s", (part), (w)->log);                                  \
        }                                                                                          \
    } while (0)

#define assert_not_saw(w, part)                                                                    \
    do {                                                                                           \
        if (strstr((w)->log, (part))) {                                                            \
            fail_msg("seen: %s\nin:\n%s", (part), (w)->log);                                       \
        }                                                                                          \
    } while (0)

int times_seen(const struct world *w, const char *part);

/* Returns the state of the first job, such as "waiting". */
const char *job_state(const struct world *w);

/* --- set-up and tear-down --------------------------------------------------------------------- */

struct rdzv_config usual_config(void);
struct msg_join usual_join(uint32_t min, uint32_t max);
struct world *world_new(const struct rdzv_config *config, uint32_t min, uint32_t max);
struct world *a_world(uint32_t min, uint32_t max);
void world_free(struct world *w);
const char *name_of(uint32_t i);

/* Nodes a, b, … join on sessions 0 … n-1, each READY for epoch 1 before the next one joins. */
void come(struct world *w, uint32_t n);

/* Creates n nodes in epoch 1, a with rank 0. */
struct world *a_running_world(uint32_t min, uint32_t max, uint32_t n);

/* Creates a restarted server whose record has node a alone in epoch 4; a has rejoined on session
 * 0. */
struct world *an_adopted_world(uint32_t max);

#endif
