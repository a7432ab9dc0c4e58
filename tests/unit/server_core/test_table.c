/* tests/unit/server_core/test_table.c: which nodes receive the whole table, and which only the
 * changes since the one that they hold. */
#include "tests/unit/server_core/server_fixture.h"

/* READY with the digest of a table that the node still holds. */
static void ready_holding(struct world *w, uint32_t session, uint64_t epoch, uint64_t digest)
{
    char host[TFE_ID_MAX + 32];
    const uint16_t port = (uint16_t)(1000 + 100 * session);
    snprintf(host, sizeof(host), "%s%u", w->node[session], (unsigned)(epoch & 1));
    const struct msg_ready ready = {
        .epoch = epoch, .host = host, .ports = &port, .n_ports = 1, .table_digest = digest};
    assert_int_equal(say(w, session, &(struct tfe_msg){.type = MSG_READY, .u.ready = ready}), 0);
}

static uint64_t digest_of_table(uint32_t n, unsigned parity, const char *const *names,
                                const uint32_t *sessions)
{
    struct msg_row rows[8];
    char hosts[8][16];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(hosts[i], sizeof(hosts[i]), "%s%u", names[i], parity);
        rows[i] =
            (struct msg_row){i, hosts[i], (uint16_t)(1000 + 100 * sessions[i]), TASK_WORKER, 0};
    }
    return table_digest(rows, n);
}

static const char *const abcdef[] = {"a", "b", "c", "d", "e", "f"};
static const uint32_t first_six[] = {0, 1, 2, 3, 4, 5};

/* Epochs 1 and 2 of six nodes; then b leaves, and those named in `hold` hold the table of epoch
 * 1. */
static struct world *a_world_in_epoch_3(uint64_t held, unsigned hold)
{
    struct world *w = a_running_world(2, 6, 6);
    exited(w, 3, 1, 1);
    for (uint32_t i = 0; i < 6; i++) {
        if (i != 3) {
            stopped_and_ready(w, i, 1);
        } else {
            ready(w, i, 2);
        }
    }
    pass(w, 2000);
    assert_string_equal(job_state(w), "running");
    goodbye(w, 1);
    w->quiet = true;
    forget(w);
    for (uint32_t i = 0; i < 6; i++) {
        if (i != 1) {
            exited_as(w, i, (struct msg_exited){.epoch = 2, .stopped = true});
            ready_holding(w, i, 3, hold & (1u << i) ? held : 0);
        }
    }
    return w;
}

static void ready_at(struct world *w, const char *host)
{
    const uint16_t port = 1000;
    const struct msg_ready ready = {.epoch = 1, .host = host, .ports = &port, .n_ports = 1};
    assert_int_equal(say(w, 0, &(struct tfe_msg){.type = MSG_READY, .u.ready = ready}), 0);
}

/* Whatever the length of the one that was said before. */
TEST(table, hosts_of_any_length_are_sent_as_last_reported)
{
    char longest[TFE_HOST_MAX + 1];
    const char *const hosts[] = {"a", "a-host.of-48-characters-and-not-one-more.example",
                                 "a-host.of-47-characters-and-not-one-more.exampl", longest};
    memset(longest, 'x', TFE_HOST_MAX);
    longest[TFE_HOST_MAX] = '\0';
    for (size_t i = 0; i < 16; i++) {
        struct world *w = a_world(2, 2);
        char row[TFE_HOST_MAX + 16];
        join(w, 0, "a");
        join(w, 1, "b");
        ready_at(w, hosts[i / 4]);
        ready_at(w, hosts[i % 4]);
        ready(w, 1, 1);
        snprintf(row, sizeof row, " %s:1000", hosts[i % 4]);
        assert_saw(w, row);
        world_free(w);
    }
}

TEST(table, holder_of_the_second_last_table_gets_changes)
{
    uint64_t held = digest_of_table(6, 1, abcdef, first_six);
    struct world *w = a_world_in_epoch_3(held, 0x3f & ~(1u << 4));
    /* b's seat went to the last one; the others are where they were, on the ports of epoch 1. */
    char line[128];
    snprintf(line, sizeof(line), "0:TABLE epoch=3 changes 1=f1:1500 base=%llx\n",
             (unsigned long long)held);
    assert_saw(w, line);
    assert_int_equal(times_seen(w, "TABLE epoch=3 changes"), 4);
    assert_saw(w, "4:TABLE epoch=3 a1:1000 f1:1500 c1:1200 d1:1300 e1:1400 digest=");
    world_free(w);
}

/* Agents take the two ports of a pair in turn: 1000 + 100 x session, and one more in odd epochs. */
static void ready_on_a_pair(struct world *w, uint32_t session, uint64_t epoch, uint64_t digest)
{
    const uint16_t port = (uint16_t)(1000 + 100 * session + epoch % 2);
    const struct msg_ready ready = {.epoch = epoch,
                                    .host = w->node[session],
                                    .ports = &port,
                                    .n_ports = 1,
                                    .table_digest = digest};
    assert_int_equal(say(w, session, &(struct tfe_msg){.type = MSG_READY, .u.ready = ready}), 0);
}

static uint64_t digest_on_pairs(const char *names, const uint32_t *sessions, uint64_t epoch)
{
    struct msg_row rows[8];
    char hosts[8][2];
    uint32_t n = 0;
    for (; names[n]; n++) {
        snprintf(hosts[n], sizeof(hosts[n]), "%c", names[n]);
        rows[n] = (struct msg_row){n, hosts[n], (uint16_t)(1000 + 100 * sessions[n] + epoch % 2),
                                   TASK_WORKER, 0};
    }
    return table_digest(rows, n);
}

/* Of six in epoch 1, b leaves; the others hold the table of that one. */
static struct world *a_world_in_epoch_2_on_pairs(uint64_t *ret_first)
{
    struct world *w = a_world(2, 6);
    for (uint32_t i = 0; i < 6; i++) {
        join(w, i, abcdef[i]);
        ready_on_a_pair(w, i, 1, 0);
    }
    assert_string_equal(job_state(w), "running");
    *ret_first = digest_on_pairs("abcdef", first_six, 1);
    w->quiet = true;
    forget(w);
    goodbye(w, 1);
    for (uint32_t i = 0; i < 6; i++) {
        if (i != 1) {
            exited_as(w, i, (struct msg_exited){.epoch = 1, .stopped = true});
            ready_on_a_pair(w, i, 2, *ret_first);
        }
    }
    return w;
}

TEST(table, node_without_the_last_table_gets_changes_since_the_one_before)
{
    uint64_t first;
    struct world *w = a_world_in_epoch_2_on_pairs(&first);
    uint64_t second = digest_on_pairs("afcde", (const uint32_t[]){0, 5, 2, 3, 4}, 2);
    forget(w);
    goodbye(w, 4);
    for (uint32_t i = 0; i < 6; i++) {
        if (i != 1 && i != 4) {
            exited_as(w, i, (struct msg_exited){.epoch = 2, .stopped = true});
            ready_on_a_pair(w, i, 3, i == 3 ? first : second);
        }
    }
    char line[128];
    snprintf(line, sizeof(line), "0:TABLE epoch=3 changes turned base=%llx\n",
             (unsigned long long)second); /* e had the last seat */
    assert_saw(w, line);
    snprintf(line, sizeof(line), "3:TABLE epoch=3 changes 1=f:1501 base=%llx\n",
             (unsigned long long)first);
    assert_saw(w, line);
    assert_int_equal(times_seen(w, "TABLE epoch=3 changes"), 4);
    world_free(w);
}

TEST(table, node_with_a_mismatch_gets_the_whole_table)
{
    uint64_t held = digest_of_table(6, 1, abcdef, first_six);
    struct world *w = a_world_in_epoch_3(held, 0x3f);
    assert_int_equal(times_seen(w, "TABLE epoch=3 changes"), 5);
    ready_holding(w, 2, 3, 0);
    assert_saw(w, "2:TABLE epoch=3 a1:1000 f1:1500");
    world_free(w);
}
