/* tests/unit/base/test_worker.c: a worker thread beside the loop: its notifications and its end. */
#include <event2/event.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/worker.h"
#include "tests/unit/test_runner.h"

#define TIMEOUT_MS 10000

static struct job {
    struct worker *worker;
    struct event_base *base;
    sem_t done;
    int gate[2]; /* pipe that the thread reads: it hangs until a byte arrives */
    bool stop;
    unsigned orders;
    unsigned told;
    bool took_signals;
    char name[16];
} job;

static void done(void *ctx)
{
    assert_ptr_equal(ctx, &job);
    assert_int_equal(sem_post(&job.done), 0);
}

static void on_notify(void *ctx)
{
    struct job *j = ctx;
    worker_lock(j->worker);
    j->told = j->orders;
    worker_unlock(j->worker);
    event_base_loopbreak(j->base);
}

static void begin(void (*work)(void *ctx))
{
    memset(&job, 0, sizeof job);
    assert_int_equal(sem_init(&job.done, 0, 0), 0);
    assert_int_equal(pipe(job.gate), 0);
    job.base = event_base_new();
    assert_non_null(job.base);
    const struct worker_config config = {.name = "test-worker",
                                         .stack = 64 * 1024,
                                         .work = work,
                                         .base = job.base,
                                         .on_notify = on_notify,
                                         .done = done,
                                         .ctx = &job};
    assert_int_equal(worker_start(&config, &job.worker), 0);
}

static void end(void)
{
    event_base_free(job.base);
    assert_int_equal(sem_destroy(&job.done), 0);
    assert_int_equal(close(job.gate[0]), 0);
    assert_int_equal(close(job.gate[1]), 0);
}

static bool is_done(void)
{
    return sem_trywait(&job.done) == 0;
}

/* Notifies the loop of each order, until it is stopped. */
static void obey(void *ctx)
{
    struct job *j = ctx;
    unsigned seen = 0;
    sigset_t blocked;
    worker_lock(j->worker);
    (void)pthread_getname_np(pthread_self(), j->name, sizeof j->name);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    j->took_signals = !sigismember(&blocked, SIGTERM);
    while (!j->stop) {
        if (seen == j->orders) {
            worker_wait(j->worker, TFE_MONO_NEVER);
        } else {
            seen = j->orders;
            worker_notify(j->worker);
        }
    }
    worker_unlock(j->worker);
}

static void order(void)
{
    worker_lock(job.worker);
    job.orders++;
    worker_wake(job.worker);
    worker_unlock(job.worker);
}

TEST(worker, is_woken_and_tells_the_loop)
{
    begin(obey);
    for (unsigned i = 1; i <= 100; i++) {
        order();
        assert_int_equal(event_base_dispatch(job.base), 0);
        assert_int_equal(job.told, i);
    }
    assert_false(job.took_signals);
    assert_string_equal(job.name, "test-worker");
    worker_lock(job.worker);
    job.stop = true;
    worker_wake(job.worker);
    worker_unlock(job.worker);
    assert_false(is_done());
    assert_true(worker_free(job.worker, TIMEOUT_MS));
    assert_true(is_done());
    end();
}

static void hang(void *ctx)
{
    struct job *j = ctx;
    char byte;
    assert_int_equal(read(j->gate[0], &byte, 1), 1);
    worker_notify(j->worker);
}

TEST(worker, that_hangs_is_left_and_clears_up_when_it_ends)
{
    begin(hang);
    const struct tfe_mono begun = clock_mono();
    assert_false(worker_free(job.worker, 20));
    assert_true(tfe_mono_sub(clock_mono(), begun) >= 20);
    assert_false(is_done());
    assert_int_equal(write(job.gate[1], "", 1), 1);
    assert_int_equal(sem_wait(&job.done), 0);
    /* The loop no longer has a listener. */
    assert_int_equal(event_base_loop(job.base, EVLOOP_NONBLOCK), 1);
    assert_int_equal(job.told, 0);
    end();
}

/* Counts its wake-ups. */
static void doze(void *ctx)
{
    struct job *j = ctx;
    worker_lock(j->worker);
    const struct tfe_mono until = tfe_mono_add(clock_mono(), 30);
    while (tfe_mono_before(clock_mono(), until)) {
        worker_wait(j->worker, until);
        j->orders++;
    }
    worker_wait(j->worker, until); /* the deadline is over: returns at once */
    worker_unlock(j->worker);
}

TEST(worker, waits_for_a_time)
{
    const struct tfe_mono begun = clock_mono();
    begin(doze);
    assert_true(worker_free(job.worker, TIMEOUT_MS));
    assert_true(tfe_mono_sub(clock_mono(), begun) >= 30);
    assert_in_range(job.orders, 1, 10);
    end();
}
