/* tests/unit/server/fixture.c: see fixture.h. */
#include "tests/unit/server/fixture.h"

#include "common/base/clock.h"
#include "server/auth/keyring.h"
#include "server/auth/keys.h"
#include "server/events/event_log.h"
#include "server/events/series.h"
#include "server/jobs/pool.h"
#include "tests/job_options.h"

/* Starts the parts of the server in the same order as main.c. */
static void start_parts(struct fixture *f)
{
    const struct rdzv_config config = {.incarnation = 7,
                                       .ttl_ms = 10000,
                                       .defaults = default_options(),
                                       .gather_max_ms = 30000,
                                       .exit_grace_ms = 60000,
                                       .max_sessions = f->max_agents,
                                       .max_nodes = f->max_agents};
    struct store *store;
    struct tfe_reason reason;
    assert_int_equal(store_open(f->store_path, 7, clock_wall(), NULL, &store, &reason), 0);
    assert_int_equal(driver_new(f->world.base, &config, &f->driver), 0);
    const struct rdzv *core = driver_core(f->driver);
    assert_int_equal(deny_list_new(&f->bans), 0);
    assert_int_equal(events_new(core, &f->events), 0);
    assert_int_equal(series_new(&f->series), 0);
    assert_int_equal(reports_new(core, f->events, f->series, &f->reports), 0);
    const struct pool_config pool = {.base = f->world.base,
                                     .core = core,
                                     .ops = &driver_session_ops,
                                     .ops_ctx = f->driver,
                                     .events = f->events,
                                     .reports = f->reports,
                                     .keys = keys_ring(f->keys),
                                     .bundle_dir = f->dir,
                                     .incarnation = 7,
                                     .ttl_ms = 10000,
                                     .max_restarts = 2};
    assert_int_equal(pool_new(&pool, &f->pool), 0);
    driver_outlets(f->driver)->pool = f->pool;
    assert_int_equal(pool_load(f->pool, store, &reason), 0);
    assert_int_equal(driver_restore(f->driver, store, &reason), 0);
    assert_int_equal(driver_set_store(f->driver, store, 0, &reason), 0);
    pool_keep(f->pool, driver_writer(f->driver));
}

static void start(struct fixture *f)
{
    struct tfe_reason reason;
    start_parts(f);
    const struct sessions_config config = {.base = f->world.base,
                                           .handshake = keys_handshake(f->keys),
                                           .params = f->world.server_params,
                                           .rdzv = driver_core(f->driver),
                                           .writer = driver_writer(f->driver),
                                           .backup_dir = f->dir,
                                           .keys = f->keys,
                                           .bans = f->bans,
                                           .events = f->events,
                                           .series = f->series,
                                           .reports = f->reports,
                                           .pool = f->pool,
                                           .max_sessions = f->max_agents,
                                           .max_connections = 100,
                                           .allowed = &f->allowed,
                                           .half_open_per_address = LIMIT_UNAUTHENTICATED_MIN,
                                           .gauges = &f->gauges,
                                           .ops = f->ops,
                                           .ops_ctx = f->driver};
    assert_int_equal(sessions_new(&config, &f->all), 0);
    driver_outlets(f->driver)->sessions = f->all;
    assert_int_equal(
        listener_new(f->world.base, "127.0.0.1", 0, sessions_accept, f->all, &f->listener, &reason),
        0);
}

static void stop(struct fixture *f)
{
    listener_free(f->listener);
    driver_stop(f->driver);
    sessions_free(f->all);
    reports_free(f->reports);
    assert_true(driver_free(f->driver, 30000));
    pool_free(f->pool);
    series_free(f->series);
    events_free(f->events);
    deny_list_free(f->bans);
}

void fixture_begin_in(struct fixture *f, const char *store, const struct session_ops *ops,
                      uint32_t max_agents)
{
    struct tfe_reason reason;
    memset(f, 0, sizeof *f);
    folder_make(f->dir);
    if (store) {
        assert_true(snprintf(f->store_file, sizeof f->store_file, "%s/%s", f->dir, store) > 0);
        f->store_path = f->store_file;
    }
    f->ops = ops ? ops : &driver_session_ops;
    f->max_agents = max_agents;
    world_make(&f->world);
    assert_int_equal(keys_open(f->dir, 0, &f->keys, &reason), 0);
    assert_int_equal(addresses_parse(&f->allowed, "192.0.2.0/26", &reason), 0);
    start(f);
    fixture_set_token(f, PRINCIPAL_AGENT, PRINCIPAL_EVERY_JOB, 0);
}

void fixture_begin(struct fixture *f, const struct session_ops *ops, uint32_t max_agents)
{
    fixture_begin_in(f, NULL, ops, max_agents);
}

void fixture_restart(struct fixture *f)
{
    assert_non_null(f->store_path);
    stop(f);
    start(f);
}

void fixture_end(struct fixture *f)
{
    side_free(&f->world.client);
    stop(f);
    keys_free(f->keys);
    world_end(&f->world);
    folder_remove(f->dir);
}

void fixture_set_token(struct fixture *f, enum principal_role role, const char *scope,
                       uint32_t uses)
{
    const struct msg_token_create config = {
        .role = role, .scope = scope, .uses = uses, .label = ""};
    const struct msg_token_row *row;
    assert_int_equal(keyring_make(keys_ring(f->keys), &config, clock_wall(), &f->world.token, &row),
                     0);
    (void)snprintf(f->token_key, sizeof f->token_key, "%s", row->key);
}
