/* tests/unit/store/test_faults.c: every call of the store with each call below it failing in turn:
 * no memory, a busy, full or broken disk. Whatever fails, it says so, nothing is corrupt, and the
 * next try works.
 *
 * A prime stride through the calls; all of them with $TFE_TEST_FULL. */
#include <unistd.h>

#include "server/store/recover.h"
#include "server/store/store.h"
#include "tests/unit/store/lossy.h"
#include "tests/unit/store/records.h"

/* --- memory that runs out: SQLite's and our own --- */

static long asked;
static long fail_ask; /* counted from 1; 0 none */
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

static bool ours; /* the store is at work, and not the test */

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

/* --- one life of a store --- */

struct life {
    struct store *store;
    struct sample sample;
    struct heard heard;
    struct tfe_why why;
    uint64_t acknowledged; /* the job's epoch */
    uint64_t tried;
    unsigned failed; /* calls that said so */
    bool without_sentence;
};

/* Notes how a call ended; true if it worked. */
static bool went_well(struct life *l, int rc)
{
    if (rc == 0) {
        return true;
    }
    if (rc != TFE_ENOMEM && rc != TFE_EDISK) {
        ours = false;
        fail_msg("call %ld or allocation %ld failed: %s: %s", lossy.fail_at, fail_ask,
                 tfe_error_sentence(rc), l->why.text);
    }
    l->failed++;
    l->without_sentence = l->without_sentence || l->why.text[0] == '\0';
    l->why.text[0] = '\0';
    return false;
}

static int count_job(void *ctx, const struct rdzv_record *r, const char *fault)
{
    assert_null(fault);
    *(uint64_t *)ctx = r->epoch;
    return 0;
}

static int count_row(void *ctx, const struct msg_epoch_row *row)
{
    (void)row;
    (*(uint64_t *)ctx)++;
    return 0;
}

static bool open_it(struct life *l, uint64_t incarnation)
{
    return went_well(l, store_open(LOSSY_PATH, incarnation, NOW, "lossy", &l->store, &l->why));
}

/* One epoch further, in one transaction with its row. */
static void go_on(struct life *l)
{
    struct msg_epoch_row row = a_row(l->acknowledged + 1);
    if (!went_well(l, store_begin(l->store, &l->why))) {
        return;
    }
    l->tried = l->acknowledged + 1;
    const struct rdzv_record *record =
        a_record(&l->sample, "j", l->tried, l->acknowledged, l->acknowledged + 1);
    if (!went_well(l, store_put(l->store, record, NOW, &l->why)) ||
        !went_well(l, store_put_row(l->store, "j", &row, NOW, &l->why))) {
        store_rollback(l->store);
    } else if (went_well(l, store_commit(l->store, &l->why))) {
        l->acknowledged = l->tried;
    }
}

/* A copy into a file of the system's, while this disk fails. */
static void back_up(struct life *l)
{
    char path[64];
    bool is_done = false;
    (void)snprintf(path, sizeof(path), "/tmp/tfe-faults-%ld.db", (long)getpid());
    if (went_well(l, store_backup_begin(l->store, path, &l->why))) {
        while (!is_done && went_well(l, store_backup_step(l->store, 3, &is_done, &l->why))) {
        }
    }
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
    if (went_well(l, store_load(l->store, count_job, &epoch, &l->why)) &&
        epoch != l->acknowledged) {
        ours = false;
        fail_msg("the job stands at %llu, not at %llu", (unsigned long long)epoch,
                 (unsigned long long)l->acknowledged);
    }
    go_on(l);
    go_on(l); /* after a failure: the same once more, as the core does */
    (void)went_well(l, store_read_rows(l->store, "j", 0, 100, count_row, &rows, &l->why));
    (void)went_well(l, store_prune(l->store, (struct tfe_wall){.ms = 1}, 10, &pruned, &l->why));
    back_up(l);
    go_on(l);
    store_close(l->store);
    l->store = NULL;
}

/* A disk that holds two epochs. */
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

/* Whatever has failed: it was said, a new server finds what was acknowledged, and can go on. */
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
    assert_int_equal(store_load(l->store, count_job, &epoch, &l->why), 0);
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

TEST(faults, each_call_to_the_disk_fails_with_its_own_io_error)
{
    fail_calls_with(0, 40, 10);
}

TEST(faults, each_call_to_the_disk_finds_it_full)
{
    fail_calls_with(SQLITE_FULL, 40, 10);
}

TEST(faults, each_lock_is_held_by_somebody)
{
    fail_calls_with(SQLITE_BUSY, 1, 1);
}

TEST(faults, each_allocation_fails)
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

/* --- salvaging --- */

#define DAMAGED_JOBS 60

struct wreck {
    char path[64];
    char fresh[96];
    char *bytes;
    size_t n;
};

static int take_in(void *ctx, const struct rdzv_record *r, const char *fault)
{
    (void)ctx;
    (void)r;
    (void)fault;
    return 0;
}

static void read_wreck(struct wreck *w)
{
    FILE *f = fopen(w->path, "rb");
    assert_non_null(f);
    w->bytes = __real_malloc(1 << 20);
    w->n = fread(w->bytes, 1, 1 << 20, f);
    assert_int_equal(fclose(f), 0);
}

static void put_wreck(const struct wreck *w)
{
    FILE *f = fopen(w->path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(w->bytes, 1, w->n, f), w->n);
    assert_int_equal(fclose(f), 0);
}

/* A file of many jobs with a page of rubbish in the middle. */
static void make_wreck(struct wreck *w)
{
    struct store *store;
    struct sample sample;
    struct tfe_why why;
    char job[16];
    (void)snprintf(w->path, sizeof(w->path), "/tmp/tfe-wreck-%ld.db", (long)getpid());
    (void)snprintf(w->fresh, sizeof(w->fresh), "%s.salvaged", w->path);
    assert_int_equal(store_open(w->path, 1, NOW, NULL, &store, &why), 0);
    for (int i = 0; i < DAMAGED_JOBS; i++) {
        (void)snprintf(job, sizeof(job), "job-%02d", i);
        assert_int_equal(put(store, a_record(&sample, job, 1, 0, 1), &why), 0);
    }
    store_close(store);
    read_wreck(w);
    memset(w->bytes + (w->n / 4096 / 2 + 6) * 4096, 0x5a, 4096);
}

static void remove_kept(const struct recover_report *report)
{
    char log[PATH_MAX + 8];
    (void)snprintf(log, sizeof(log), "%s-wal", report->kept);
    (void)unlink(report->kept);
    (void)unlink(log);
}

/* Without memory a row read as nothing, and a whole table as one that could not be read: jobs were
 * lost that were in the file. */
TEST(salvage, for_want_of_memory_loses_nothing_and_says_so)
{
    struct wreck w;
    struct recover_report report;
    struct tfe_why why;
    uint32_t whole = 0;
    unsigned seen = 0;
    make_wreck(&w);
    for (long at = 0;; at += at == 0 ? 1 : stride(509)) {
        put_wreck(&w);
        asked = 0;
        fail_ask = at;
        ask_failed = false;
        why.text[0] = '\0';
        ours = true;
        int rc = sqlite_store_recover(w.path, NOW, take_in, NULL, &report, &why);
        ours = false;
        fail_ask = 0;
        if (at == 0) {
            whole = report.jobs;
            assert_in_range(whole, 10, DAMAGED_JOBS - 1);
        }
        if (rc != 0) {
            assert_int_equal(rc, TFE_ENOMEM);
            assert_true(why.text[0] != '\0');
            seen++;
            struct wreck now = w;
            read_wreck(&now);
            assert_int_equal(now.n, w.n);
            assert_memory_equal(now.bytes, w.bytes, w.n);
            free(now.bytes);
        } else if (report.was_damaged) {
            if (report.jobs != whole) {
                fail_msg("allocation %ld failed: %u jobs of %u", at, report.jobs, whole);
            }
            remove_kept(&report);
        }
        assert_int_equal(access(w.fresh, F_OK), -1);
        if (at > 0 && !ask_failed) {
            break;
        }
    }
    print_message("%u failures came through, %u jobs salvaged\n", seen, whole);
    assert_true(seen > 5);
    remove_kept(&report);
    (void)unlink(w.path);
    free(w.bytes);
}

int main(void)
{
    /* Before SQLite is used at all. Without its small caches each allocation comes through. */
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
