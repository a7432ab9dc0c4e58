/* tests/unit/message/test_oom.c: every allocation of the codec fails in turn. The linker option
 * --wrap redirects malloc, calloc and sodium_malloc of the code under test
 * (tests/unit/CMakeLists.txt). */
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "common/handshake/handshake.h"
#include "common/message/arena.h"
#include "common/message/codec.h"
#include "tests/unit/test_runner.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t n);
void *__real_sodium_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t n);
void *__wrap_sodium_malloc(size_t n);

static long allocations;  /* allocations since fail_allocation */
static long failing = -1; /* number of the allocation that fails; -1 for none */

static bool is_refused(void)
{
    return allocations++ == failing;
}

void *__wrap_malloc(size_t n)
{
    return is_refused() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t n)
{
    return is_refused() ? NULL : __real_calloc(count, n);
}

void *__wrap_sodium_malloc(size_t n)
{
    return is_refused() ? NULL : __real_sodium_malloc(n);
}

static void fail_allocation(long number)
{
    allocations = 0;
    failing = number;
}

TEST(oom, failed_allocation_leaves_no_partial_object)
{
    const uint8_t secret[32] = {1}, root[32] = {2};
    uint8_t public_key[32], request[HANDSHAKE_REQUEST_MAX];
    size_t n;
    const struct handshake_params machine_info = {1, 1, 0};
    struct token token;
    crypto_scalarmult_base(public_key, secret);
    token_mint(&token, &(struct token_config){.role = PRINCIPAL_AGENT}, root, public_key);

    long number = 0;
    int rc;
    do {
        struct handshake_server *server = NULL;
        fail_allocation(number++);
        rc = handshake_server_new(secret, root, &server);
        assert_int_equal(rc, allocations > failing ? TFE_ENOMEM : 0);
        assert_true((server != NULL) == (rc == 0));
        handshake_server_free(server);
    } while (rc);
    assert_int_equal(number - 1, 3);

    number = 0;
    do {
        struct handshake_client *client = NULL;
        fail_allocation(number++);
        rc = handshake_client_start(&token, &machine_info, request, &n, &client);
        assert_int_equal(rc, allocations > failing ? TFE_ENOMEM : 0);
        assert_true((client != NULL) == (rc == 0));
        handshake_client_free(client);
    } while (rc);
    assert_int_equal(number - 1, 1);
    fail_allocation(-1);
}

TEST(oom, failed_arena_is_empty)
{
    struct arena arena;
    fail_allocation(0);
    assert_int_equal(arena_init(&arena, 1024), TFE_ENOMEM);
    fail_allocation(-1);
    assert_null(arena_alloc(&arena, 1));
    arena_done(&arena);
    arena_done(NULL);
    assert_int_equal(arena_init(&arena, 0), TFE_EINVAL);
    assert_int_equal(arena_init(&arena, ARENA_CAP + 1), TFE_EINVAL);
}

TEST(oom, arena_returns_aligned_memory_up_to_its_limit)
{
    struct arena arena;
    assert_int_equal(arena_init(&arena, 100), 0);
    for (int round = 0; round < 2; round++) {
        uint8_t *one = arena_alloc(&arena, 1);
        uint8_t *rest = arena_alloc(&arena, 84);
        assert_non_null(one);
        assert_non_null(rest);
        assert_int_equal((uintptr_t)one % 16, 0);
        assert_int_equal((uintptr_t)rest % 16, 0);
        memset(rest, 1, 84);
        assert_null(arena_alloc(&arena, 1));
        assert_null(arena_alloc(&arena, SIZE_MAX));
        arena_reset(&arena);
    }
    assert_non_null(arena_alloc(&arena, 100));
    arena_done(&arena);
}

/* Decodes a full message with every smaller arena; the decoder never uses the heap. */
TEST(oom, decoding_uses_only_the_arena_and_reports_when_full)
{
    const struct msg_exited exited = {.epoch = 6, .code = 1, .tail = "Traceback"};
    const struct tfe_msg join = {.type = MSG_JOIN,
                                 .u.join = {.job = "default",
                                            .node = "n1",
                                            .node_name = "host",
                                            .node_secret = "0123456789abcdef0123456789abcdef"
                                                           "0123456789abcdef0123456789abcdef",
                                            .spec.min_nodes = 1,
                                            .spec.max_nodes = 4,
                                            .spec.nproc = 1,
                                            .exited = &exited}};
    const struct msg_row rows[] = {{0, "a", 1, TASK_WORKER, 0}, {1, "b", 2, TASK_WORKER, 0}};
    const struct tfe_msg table = {.type = MSG_TABLE,
                                  .u.table = {.epoch = 1, .world = 2, .rows = rows, .n_rows = 2}};
    const uint32_t pids[] = {7, 8, 9};
    const struct tfe_msg node = {.type = MSG_STATUS_NODE,
                                 .u.status_node = {.node = "n",
                                                   .name = "host",
                                                   .role = ROLE_SPARE,
                                                   .host = "h",
                                                   .processes = {1, pids, 3, pids, 3}}};
    const struct tfe_msg renew = {.type = MSG_RENEW, .u.renew = {77}};
    const uint16_t ports[] = {1, 2};
    const struct tfe_msg ready = {
        .type = MSG_READY, .u.ready = {.epoch = 1, .host = "h", .ports = ports, .n_ports = 2}};
    const struct tfe_msg finish = {.type = MSG_FINISH, .u.finish = {RESULT_FAILED, 1, "no"}};
    const struct tfe_msg *messages[] = {&join, &table, &node, &renew, &ready, &finish};

    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        uint8_t bytes[512];
        size_t n;
        fail_allocation(0); /* the first allocation fails */
        assert_int_equal(codec_encode(messages[i], bytes, sizeof(bytes), &n), 0);
        assert_int_equal(allocations, 0);
        int rc = TFE_ENOMEM;
        for (size_t cap = 1; rc; cap++) {
            struct arena arena;
            struct tfe_msg got = {0};
            fail_allocation(-1);
            assert_int_equal(arena_init(&arena, cap), 0);
            fail_allocation(0);
            rc = codec_decode(&arena, bytes, n, &got);
            assert_int_equal(allocations, 0);
            assert_int_equal(rc, rc ? TFE_ENOMEM : 0);
            assert_int_equal(got.type, rc ? 0 : messages[i]->type);
            fail_allocation(-1);
            arena_done(&arena);
            assert_true(cap < 4096);
        }
    }
}
