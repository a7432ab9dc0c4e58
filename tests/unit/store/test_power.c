/* tests/unit/store/test_power.c: no acknowledged epoch is lost if the power fails at any write or
 * sync.
 *
 * 300 cycles; $TFE_TEST_CYCLES sets another number, and $TFE_TEST_FULL means 5,000. */
#include "server/store/store.h"
#include "tests/unit/store/lossy.h"
#include "tests/unit/store/records.h"

#define JOBS 3

static const char *const names[JOBS] = {"a", "b", "c"};

/* The writer's knowledge of a job. */
struct known {
    uint64_t acknowledged;
    uint64_t tried; /* last attempted epoch, which may have been stored as well */
    uint64_t sequence;
};

struct world {
    struct store *store;
    struct known jobs[JOBS];
    uint64_t found[JOBS]; /* epochs found by the last load */
    uint64_t cycle;
    uint64_t lost_tries, kept_tries, died_opening;
    struct sample sample;
    struct heard heard, wanted;
};

static long cycles(void)
{
    const char *text = getenv("TFE_TEST_CYCLES");
    if (text) {
        return strtol(text, NULL, 10);
    }
    return getenv("TFE_TEST_FULL") ? 5000 : 300;
}

static int take_job(void *ctx, const struct rdzv_record *r, const char *fault)
{
    assert_null(fault);
    struct world *w = ctx;
    for (int i = 0; i < JOBS; i++) {
        if (strcmp(names[i], r->job) == 0) {
            w->found[i] = r->epoch;
            /* The record is exactly that epoch's, and no mixture of two. */
            struct heard *heard = &w->heard;
            *heard = (struct heard){.text = ""};
            (void)hear(heard, r, NULL);
            assert_string_equal(heard->text,
                                text_of(&w->wanted, a_record(&w->sample, names[i], r->epoch,
                                                             r->predecessor, r->sequence)));
            w->jobs[i].sequence = r->sequence;
            return 0;
        }
    }
    fail_msg("job %s was never written", r->job);
    return 0;
}

static int take_row(void *ctx, const struct tfe_msg *row)
{
    *(uint64_t *)ctx = row->u.epoch_row.epoch;
    return 0;
}

/* Returns false if the power failed. */
static bool open_store(struct world *w)
{
    struct tfe_reason reason = {.text = ""};
    int rc = store_open(LOSSY_PATH, w->cycle + 1, (struct tfe_wall){.ms = (int64_t)w->cycle},
                        "lossy", &w->store, &reason);
    if (rc != 0 && !lossy.is_dead) {
        fail_msg("cycle %llu: %s", (unsigned long long)w->cycle, reason.text);
    }
    return rc == 0;
}

static void check_store(struct world *w)
{
    struct tfe_reason reason = {.text = ""};
    memset(w->found, 0, sizeof(w->found));
    if (store_load(w->store, take_job, w, &reason) != 0) {
        fail_msg("cycle %llu: load: %s", (unsigned long long)w->cycle, reason.text);
    }
    for (int i = 0; i < JOBS; i++) {
        struct known *job = &w->jobs[i];
        if (w->found[i] < job->acknowledged || w->found[i] > job->tried) {
            fail_msg("cycle %llu: job %s stands at %llu, acknowledged were %llu, tried %llu",
                     (unsigned long long)w->cycle, names[i], (unsigned long long)w->found[i],
                     (unsigned long long)job->acknowledged, (unsigned long long)job->tried);
        }
        w->kept_tries += w->found[i] > job->acknowledged;
        w->lost_tries += w->found[i] < job->tried;
        job->acknowledged = w->found[i];
        job->tried = w->found[i];
        uint64_t row = 0;
        const struct store_page page = {.type = MSG_EPOCH_ROW,
                                        .job = names[i],
                                        .after = w->found[i] - (w->found[i] > 0),
                                        .max = 1};
        assert_int_equal(store_read(w->store, &page, take_row, &row, &reason), 0);
        assert_int_equal(row, w->found[i]);
    }
}

/* Writes one to three jobs in one transaction. Returns false if the power failed. */
static bool write_some(struct world *w)
{
    struct tfe_reason reason = {.text = ""};
    struct tfe_wall now = {.ms = (int64_t)w->cycle};
    unsigned chosen = 1 + lossy_below(7);
    int rc = store_begin(w->store, &reason);
    for (int i = 0; rc == 0 && i < JOBS; i++) {
        struct known *job = &w->jobs[i];
        if ((chosen & 1u << i) == 0) {
            continue;
        }
        job->tried = job->acknowledged + 1;
        struct msg_epoch_row row = a_row(job->tried);
        rc = put_record(
            w->store,
            a_record(&w->sample, names[i], job->tried, job->acknowledged, ++job->sequence),
            &reason);
        if (rc == 0) {
            rc = store_put_row(w->store, names[i], &row, now, &reason);
        }
    }
    if (rc == 0) {
        rc = store_commit(w->store, &reason);
    }
    if (rc != 0) {
        assert_true(lossy.is_dead);
        return false;
    }
    for (int i = 0; i < JOBS; i++) {
        w->jobs[i].acknowledged = w->jobs[i].tried;
    }
    return true;
}

TEST(power, power_loss_at_any_time_loses_no_acknowledged_epoch)
{
    struct world *w = calloc(1, sizeof(*w));
    long n = cycles();
    lossy_install(20260101);
    lossy_wipe();
    for (w->cycle = 0; (long)w->cycle < n; w->cycle++) {
        bool early = lossy_below(4) == 0;
        lossy.writes_left = early ? (long)lossy_below(25) : -1;
        if (!open_store(w)) {
            w->died_opening++;
            lossy_power_cycle();
            continue;
        }
        check_store(w);
        uint32_t pruned = 0;
        struct tfe_reason reason;
        struct tfe_wall before = {.ms = (int64_t)w->cycle - 20};
        if (!early) {
            assert_int_equal(store_prune(w->store, before, 100, &pruned, &reason), 0);
            lossy.writes_left = (long)lossy_below(120);
        }
        while (write_some(w)) {
        }
        store_close(w->store);
        lossy_power_cycle();
    }
    print_message(
        "%ld cycles: %llu died while it was opened; of epochs nobody was told of %llu were there "
        "and %llu were not\n",
        n, (unsigned long long)w->died_opening, (unsigned long long)w->kept_tries,
        (unsigned long long)w->lost_tries);
    /* Otherwise the simulated disk is too reliable to prove anything. */
    assert_true(w->died_opening > 0 && w->kept_tries > 0 && w->lost_tries > 0);
    lossy_wipe();
    free(w);
}
