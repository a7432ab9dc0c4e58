/* tests/unit/server/test_response_stream.c: rows of a response reach the client completely and in
 * order over a real channel, at the client's reading speed. */
#include "server/query/response_stream.h"
#include "tests/unit/channel/socketpair.h"

/* A source of n rows, followed by the end or an error. */
struct numbers {
    struct rows rows;
    uint64_t n;     /* rows that the source has returned */
    uint64_t last;  /* number of the last row */
    uint64_t pause; /* the source returns TFE_EMORE after this many rows until it is woken; 0 for
                       never */
    int fails_with; /* error returned instead of the end; 0 for none */
    unsigned *freed;
};

static int next_number(struct rows *rows, struct tfe_msg *ret)
{
    struct numbers *source = (struct numbers *)rows;
    if (source->pause != 0 && source->n == source->pause) {
        return TFE_EMORE;
    }
    if (source->n == source->last) {
        *ret = (struct tfe_msg){.type = MSG_STATUS_END};
        return source->fails_with;
    }
    *ret = renewed(++source->n);
    return 0;
}

static void free_numbers(struct rows *rows)
{
    struct numbers *source = (struct numbers *)rows;
    (*source->freed)++;
    free(source);
}

static const struct rows_ops number_ops = {next_number, free_numbers};

struct fixture {
    struct world world;
    struct batch batch;
    struct response *answer;
    struct numbers *source;
    unsigned freed;
    unsigned rounds; /* calls of drained() */
    int rc;          /* result of the last call */
    size_t max;      /* largest number of bytes queued */
};

static struct fixture f;

/* Continues the response, like session.c. */
static void on_drained(struct side *side, const struct tfe_msg *msg)
{
    (void)side;
    (void)msg;
    f.rounds++;
    if (f.answer) {
        f.rc = response_continue(&f.answer);
        const size_t queued = f.world.server.ch ? channel_queued(f.world.server.ch) : 0;
        f.max = queued > f.max ? queued : f.max;
    }
}

static int begin(void **state)
{
    (void)state;
    memset(&f, 0, sizeof(f));
    world_make(&f.world);
    world_connect(&f.world);
    f.world.server.on_drained = on_drained;
    batch_init(&f.batch, f.world.base);
    f.source = calloc(1, sizeof(*f.source));
    f.source->rows.ops = &number_ops;
    f.source->freed = &f.freed;
    return 0;
}

static int done(void **state)
{
    (void)state;
    response_done(&f.answer);
    assert_int_equal(f.freed, 1);
    batch_done(&f.batch);
    world_end(&f.world);
    return 0;
}

static int answer(uint64_t last)
{
    f.source->last = last;
    return response_begin(&f.source->rows, &f.batch, f.world.server.ch, &f.answer);
}

#define FIXTURE begin, done

TEST_IN(response, long_response_is_sent_in_order_in_batches)
{
    assert_int_equal(answer(50000), 0);
    assert_non_null(f.answer);
    RUN_UNTIL(&f.world, f.world.client.messages == 50001);
    assert_int_equal(f.world.client.disorder, 0);
    assert_int_equal(f.rc, 0);
    assert_null(f.answer);
    assert_int_equal(f.freed, 1);
    assert_true(f.rounds > 10);
    assert_true(f.max < 2 * LIMIT_UNSENT_BYTES);
}

TEST_IN(response, response_continues_when_its_source_wakes_it)
{
    f.source->pause = 3;
    assert_int_equal(answer(5), 0);
    RUN_UNTIL(&f.world, f.world.client.messages == 3);
    world_settle(&f.world);
    assert_true(f.answer->waits);
    assert_int_equal(f.world.client.messages, 3);
    f.source->pause = 0;
    f.source->rows.wake(f.source->rows.wake_ctx);
    assert_false(f.answer->waits);
    RUN_UNTIL(&f.world, f.world.client.messages == 6);
    assert_null(f.answer);
}

TEST_IN(response, source_out_of_memory_ends_the_session)
{
    f.source->fails_with = TFE_ENOMEM;
    assert_int_equal(answer(2), TFE_ENOMEM);
    assert_null(f.answer);
    assert_int_equal(f.freed, 1);
}

TEST_IN(response, aborted_response_frees_its_source_and_batch_slot)
{
    f.batch.left = 0; /* other sessions have used up this pass's batch */
    assert_int_equal(answer(5), 0);
    assert_true(f.answer->pass.is_waiting);
    response_done(&f.answer);
    assert_int_equal(f.freed, 1);
    assert_true(TAILQ_EMPTY(&f.batch.waiting));
    world_settle(&f.world);
    assert_int_equal(f.world.client.messages, 0);
}

TEST_IN(response, response_over_the_batch_limit_continues_in_a_later_iteration)
{
    f.batch.left = 0;
    assert_int_equal(answer(5), 0);
    RUN_UNTIL(&f.world, f.world.client.messages == 6);
}
