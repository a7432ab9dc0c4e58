/* tests/unit/store/test_faults.c: every call of the store, with each call below it failing in turn:
 * no memory, a busy, full or broken disk. Each failure is reported, nothing becomes corrupt, and
 * the next attempt works.
 *
 * The test strides through the calls by a prime; $TFE_TEST_FULL makes it try all of them. */
#include <unistd.h>

#include "server/store/store.h"
#include "tests/unit/store/lossy.h"
#include "tests/unit/store/records.h"

/* --- memory failures, in SQLite and in the store ---------------------------------------------- */

static long asked;
static long fail_ask; /* number of the allocation that fails, from 1; 0 for none */
static bool ask_failed;

static bool no_memory(void)
{
    if (++asked == fail_ask) {
        ask_failed = true;
        return true;
    }
    return false;
}

static sqlite3_mem_methods real_memory;

static void *flaky_malloc(int n)
{
    return no_memory() ? NULL : real_memory.xMalloc(n);
}

static void *flaky_realloc(void *p, int n)
{
    return no_memory() ? NULL : real_memory.xRealloc(p, n);
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

static bool ours; /* true while the store runs, false while the test does */

void *__wrap_malloc(size_t n)
{
    return ours && no_memory() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return ours && no_memory() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return ours && no_memory() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *text)
{
    return ours && no_memory() ? NULL : __real_strdup(text);
}

/* --- life cycle of a store -------------------------------------------------------------------- */

struct life {
    struct store *store;
    struct sample sample;
    struct heard heard;
    struct tfe_reason reason;
    uint64_t acknowledged; /* last acknowledged epoch of the job */
    uint64_t tried;
    unsigned failed; /* calls that returned an error */
    bool without_sentence;
};

/* Records the result of a call. Returns true if it succeeded. */
static bool went_well(struct life *l, int rc)
{
    if (rc == 0) {
        return true;
    }
    if (rc != TFE_ENOMEM && rc != TFE_EDISK) {
        ours = false;
        fail_msg("call %ld or allocation %ld failed: %s: %s", lossy.fail_at, fail_ask,
                 tfe_error_sentence(rc), l->reason.text);
    }
    l->failed++;
    l->without_sentence = l->without_sentence || l->reason.text[0] == '\0';
    l->reason.text[0] = '\0';
    return false;
}

static int count_job(void *ctx, const struct rdzv_record *r, const char *fault)
{
    assert_null(fault);
    *(uint64_t *)ctx = r->epoch;
    return 0;
}

static int count_row(void *ctx, const struct tfe_msg *row)
{
    (void)row;
    (*(uint64_t *)ctx)++;
    return 0;
}

static bool open_it(struct life *l, uint64_t incarnation)
{
    return went_well(l, store_open(LOSSY_PATH, incarnation, NOW, "lossy", &l->store, &l->reason));
}

/* Writes the next epoch and its ledger row in one transaction. */
static void go_on(struct life *l)
{
    struct msg_epoch_row row = a_row(l->acknowledged + 1);
    if (!went_well(l, store_begin(l->store, &l->reason))) {
        return;
    }
    l->tried = l->acknowledged + 1;
    const struct rdzv_record *record =
        a_record(&l->sample, "j", l->tried, l->acknowledged, l->acknowledged + 1);
    if (!went_well(l, put_record(l->store, record, &l->reason)) ||
        !went_well(l, store_put_row(l->store, "j", &row, NOW, &l->reason))) {
        store_rollback(l->store);
    } else if (went_well(l, store_commit(l->store, &l->reason))) {
        l->acknowledged = l->tried;
    }
}

/* Copies the store into a file of the real file system while the fake disk fails. */
static void back_up(struct life *l)
{
    char path[64];
    bool is_done = false;
    (void)snprintf(path, sizeof(path), "/tmp/tfe-faults-%ld.db", (long)getpid());
    is_done = went_well(l, store_backup(l->store, path, to_its_end, NULL, &l->reason));
    bool is_there = unlink(path) == 0;
    if (is_there != is_done) {
        ours = false;
        fail_msg("%s", is_there ? "a copy that failed is there" : "the copy is not there");
    }
}

static void live(struct life *l, uint64_t incarnation)
{
    uint64_t epoch = 0;
    uint64_t rows = 0;
    uint32_t pruned;
    if (!open_it(l, incarnation)) {
        return;
    }
    if (went_well(l, store_load(l->store, count_job, &epoch, &l->reason)) &&
        epoch != l->acknowledged) {
        ours = false;
        fail_msg("the job stands at %llu, not at %llu", (unsigned long long)epoch,
                 (unsigned long long)l->acknowledged);
    }
    go_on(l);
    go_on(l); /* repeats the epoch after a failure, as the core does */
    const struct store_page page = {.type = MSG_EPOCH_ROW, .job = "j", .max = 100};
    (void)went_well(l, store_read(l->store, &page, count_row, &rows, &l->reason));
    (void)went_well(l, store_prune(l->store, (struct tfe_wall){.ms = 1}, 10, &pruned, &l->reason));
    back_up(l);
    go_on(l);
    store_close(l->store);
    l->store = NULL;
}

/* Prepares a disk with two epochs. */
static void prepare(struct life *l)
{
    *l = (struct life){.store = NULL};
    lossy_wipe();
    live(l, 1);
    assert_int_equal(l->failed, 0);
    assert_int_equal(l->acknowledged, 3);
    lossy.calls = 0;
    asked = 0;
}

/* Asserts that every failure was reported and that a new server finds all acknowledged epochs and
 * can continue. */
static void check(struct life *l)
{
    uint64_t epoch = 0;
    ours = false;
    lossy.fail_at = 0;
    fail_ask = 0;
    assert_false(l->without_sentence);
    assert_true(l->failed <= 3);
    unsigned failed = l->failed;
    if (!open_it(l, 3)) {
        fail_msg("cannot be opened afterwards");
    }
    assert_int_equal(store_load(l->store, count_job, &epoch, &l->reason), 0);
    if (epoch < l->acknowledged || epoch > l->tried) {
        fail_msg("the job stands at %llu, acknowledged were %llu, tried %llu",
                 (unsigned long long)epoch, (unsigned long long)l->acknowledged,
                 (unsigned long long)l->tried);
    }
    l->acknowledged = epoch;
    go_on(l);
    assert_int_equal(l->failed, failed);
    assert_int_equal(l->acknowledged, epoch + 1);
    store_close(l->store);
    l->store = NULL;
}

static long stride(long of)
{
    return getenv("TFE_TEST_FULL") ? 1 : of;
}

static void fail_calls_with(int code, long least_calls, unsigned least_seen)
{
    struct life l;
    long calls = 0;
    unsigned seen = 0;
    for (long at = 1;; at += code == SQLITE_BUSY ? 1 : stride(3)) {
        prepare(&l);
        lossy.fail_at = at;
        lossy.fail_with = code;
        live(&l, 2);
        bool has_failed = lossy.has_failed;
        seen += l.failed > 0;
        check(&l);
        if (!has_failed) {
            break;
        }
        calls = at;
    }
    print_message("%ld calls to the disk, %u failures came through\n", calls, seen);
    assert_true(calls >= least_calls && seen >= least_seen);
}

TEST(faults, each_disk_call_may_fail_with_an_io_error)
{
    fail_calls_with(0, 40, 10);
}

TEST(faults, each_disk_call_may_find_the_disk_full)
{
    fail_calls_with(SQLITE_FULL, 40, 10);
}

TEST(faults, each_lock_may_be_held)
{
    fail_calls_with(SQLITE_BUSY, 1, 1);
}

TEST(faults, each_allocation_may_fail)
{
    struct life l;
    long allocations = 0;
    unsigned seen = 0;
    for (long at = 1;; at += stride(7)) {
        prepare(&l);
        ours = true;
        fail_ask = at;
        ask_failed = false;
        live(&l, 2);
        ours = false;
        bool has_failed = ask_failed;
        seen += l.failed > 0;
        check(&l);
        if (!has_failed) {
            break;
        }
        allocations = at;
    }
    print_message("%ld allocations, %u failures came through\n", allocations, seen);
    assert_true(allocations > 100 && seen > 50 / (unsigned)stride(7));
}

int main(void)
{
    /* Must precede any use of SQLite. Without lookaside caches every allocation reaches the hook.
     */
    sqlite3_mem_methods flaky;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory) != SQLITE_OK) {
        return 1;
    }
    flaky = real_memory;
    flaky.xMalloc = flaky_malloc;
    flaky.xRealloc = flaky_realloc;
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &flaky) != SQLITE_OK ||
        sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) != SQLITE_OK) {
        return 1;
    }
    lossy_realloc = __real_realloc;
    lossy_install(1);
    int rc = stories_run(NULL, NULL);
    lossy_wipe();
    return rc;
}
