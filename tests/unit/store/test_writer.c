/* tests/unit/store/test_writer.c: the writer: queueing, merging, failures, retries and
 * notifications. The store is real, but calls of SQLite can be blocked or made to fail, both
 * clocks can be advanced, and all allocations are counted. */
#include <pthread.h>
#include <sqlite3.h>

#include "common/base/clock.h"
#include "server/store/writer.h"
#include "tests/unit/folder.h"
#include "tests/unit/store/records.h"

#define HOUR_MS INT64_C(3600000)
#define ROWS_MAX 10000 /* same value as in server/store/writer.c */

/* --- calls of SQLite, from the writer's thread ---------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool holds;        /* true blocks the next transaction at its beginning */
    bool is_held;      /* true while a transaction is blocked */
    const char *fails; /* job whose writes fail; NULL for none */
    int fails_with;    /* SQLite's error of these writes */
    int code;          /* error of the present write; 0 for none */
    char calls[32768]; /* calls so far, as in "begin put:a/1 row:a/2 commit " */
    size_t n_calls;
    int n_rows;
    int n_prunes;
    int64_t ahead_ms; /* ms added to both clocks */
    long blocks;      /* allocated blocks that have not been freed */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

int __real_sqlite3_step(sqlite3_stmt *statement);
int __wrap_sqlite3_step(sqlite3_stmt *statement);
void __real_sqlite3_progress_handler(sqlite3 *db, int n, int (*fn)(void *ctx), void *ctx);
void __wrap_sqlite3_progress_handler(sqlite3 *db, int n, int (*fn)(void *ctx), void *ctx);
int __real_sqlite3_extended_errcode(sqlite3 *db);
int __wrap_sqlite3_extended_errcode(sqlite3 *db);
int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);
void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void __real_free(void *p);
void __wrap_free(void *p);

static void note_call(const char *what, const char *job, uint64_t epoch)
{
    size_t room = sizeof(seen.calls) - seen.n_calls;
    int n = job ? snprintf(seen.calls + seen.n_calls, room, "%s:%s/%llu ", what, job,
                           (unsigned long long)epoch)
                : snprintf(seen.calls + seen.n_calls, room, "%s ", what);
    seen.n_calls += (size_t)n < room ? (size_t)n : 0;
}

static void wait_while_held(const char *what)
{
    pthread_mutex_lock(&seen.lock);
    note_call(what, NULL, 0);
    while (seen.holds) {
        seen.is_held = true;
        pthread_cond_broadcast(&seen.changed);
        pthread_cond_wait(&seen.changed, &seen.lock);
    }
    seen.is_held = false;
    pthread_mutex_unlock(&seen.lock);
}

static bool begins(sqlite3_stmt *statement, const char *words)
{
    return strncmp(sqlite3_sql(statement), words, strlen(words)) == 0;
}

/* Notes the insertion of a record or row. Returns true if it is to fail. */
static bool note_insertion(sqlite3_stmt *statement, const char *what)
{
    char job[64] = "";
    long long values[3] = {0};
    char *sql = sqlite3_expanded_sql(statement);
    const char *at = strstr(sql, "VALUES('");
    assert_true(at && sscanf(at, "VALUES('%63[^']', %lld, %lld, %lld", job, &values[0], &values[1],
                             &values[2]) == 4);
    sqlite3_free(sql);
    pthread_mutex_lock(&seen.lock);
    const bool is_record = strcmp(what, "put") == 0;
    note_call(what, job, (uint64_t)values[is_record ? 0 : 1]);
    seen.n_rows += !is_record && values[2] == 1; /* rows of a record have run 7 */
    const bool is_bad = seen.fails && strcmp(seen.fails, job) == 0;
    seen.code = is_bad ? seen.fails_with : SQLITE_OK;
    pthread_mutex_unlock(&seen.lock);
    return is_bad;
}

int __wrap_sqlite3_step(sqlite3_stmt *statement)
{
    if (begins(statement, "BEGIN")) {
        wait_while_held("begin");
    } else if ((begins(statement, "INSERT OR REPLACE INTO jobs") &&
                note_insertion(statement, "put")) ||
               (begins(statement, "INSERT INTO ledger") && note_insertion(statement, "row"))) {
        return seen.code;
    }
    const int rc = __real_sqlite3_step(statement);
    if (begins(statement, "COMMIT")) {
        pthread_mutex_lock(&seen.lock);
        note_call("commit", NULL, 0);
        pthread_mutex_unlock(&seen.lock);
    }
    if (begins(statement, "DELETE FROM ledger WHERE (job, epoch) IN")) {
        __atomic_add_fetch(&seen.n_prunes, 1, __ATOMIC_SEQ_CST);
    }
    return rc;
}

/* A backup begins with it. */
void __wrap_sqlite3_progress_handler(sqlite3 *db, int n, int (*fn)(void *ctx), void *ctx)
{
    if (fn) {
        wait_while_held("backup");
    }
    __real_sqlite3_progress_handler(db, n, fn, ctx);
}

/* Called by the writer's thread only, after its step has failed. */
int __wrap_sqlite3_extended_errcode(sqlite3 *db)
{
    return seen.code != SQLITE_OK ? seen.code : __real_sqlite3_extended_errcode(db);
}

static int64_t ahead(void)
{
    return __atomic_load_n(&seen.ahead_ms, __ATOMIC_SEQ_CST);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    const int rc = __real_clock_gettime(id, ret);
    const int64_t ms = ret->tv_nsec / 1000000 + (id != CLOCK_MONOTONIC ? ahead() : 0);
    ret->tv_sec += ms / 1000;
    ret->tv_nsec = ms % 1000 * 1000000;
    return rc;
}

static void *counted(void *p)
{
    __atomic_add_fetch(&seen.blocks, p != NULL, __ATOMIC_SEQ_CST);
    return p;
}

void *__wrap_malloc(size_t n)
{
    return counted(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n)
{
    void *now = __real_realloc(p, n);
    return p ? now : counted(now);
}

char *__wrap_strdup(const char *text)
{
    return counted(__real_strdup(text));
}

void __wrap_free(void *p)
{
    __atomic_sub_fetch(&seen.blocks, p != NULL, __ATOMIC_SEQ_CST);
    __real_free(p);
}

/* --- fixture with one writer ------------------------------------------------------------------ */

struct office {
    char folder[FOLDER_BYTES];
    struct event_base *base;
    struct writer *w;
    bool refuses;      /* true refuses to handle results */
    char told[4096];   /* results, as in "a/1=0 [-7 full] page:0/2 " */
    long blocks;       /* allocated blocks before the writer existed */
    struct heard read; /* content of the store after the writer has ended */
};

static void tell(struct office *o, const char *what, int rc, const char *more)
{
    size_t at = strlen(o->told);
    (void)snprintf(o->told + at, sizeof(o->told) - at, "%s%s%s%s ", what,
                   rc == 0           ? "=0"
                   : rc == TFE_EDISK ? "=disk"
                                     : "=?",
                   more[0] ? " " : "", more);
}

static bool written(void *ctx, const char *job, uint64_t sequence, int rc)
{
    struct office *o = ctx;
    char what[64];
    (void)snprintf(what, sizeof(what), "%s/%llu", job, (unsigned long long)sequence);
    if (!o->refuses) {
        tell(o, what, rc, "");
    }
    return !o->refuses;
}

static void condition(void *ctx, int rc, const char *reason)
{
    tell(ctx, "store", rc,
         strstr(reason, "full")        ? "full"
         : strstr(reason, "I/O error") ? "error"
                                       : "");
}

static void answered(void *ctx, int rc, struct record_list *page, const char *reason)
{
    char n[32];
    (void)snprintf(n, sizeof(n), "n=%zu", page->n);
    tell(ctx, "answer", rc, rc == 0 ? n : reason);
}

static struct store *store_of(const struct office *o)
{
    struct store *store;
    struct tfe_reason reason;
    if (store_open(folder_path(o->folder, "db"), 1, clock_wall(), NULL, &store, &reason) != 0) {
        fail_msg("%s", reason.text);
    }
    return store;
}

static struct office *an_office(int64_t keep_history_ms)
{
    static const struct writer_ops ops = {.written = written, .condition = condition};
    static struct office office;
    struct office *o = &office;
    struct tfe_reason reason;
    memset(o, 0, sizeof(*o));
    seen.holds = seen.is_held = false;
    seen.fails = NULL;
    seen.n_calls = 0;
    seen.calls[0] = '\0';
    seen.n_rows = seen.n_prunes = 0;
    seen.ahead_ms = 0;
    folder_make(o->folder);
    o->base = event_base_new();
    o->blocks = __atomic_load_n(&seen.blocks, __ATOMIC_SEQ_CST);
    const struct writer_config config = {.base = o->base,
                                         .store = store_of(o),
                                         .ops = &ops,
                                         .ctx = o,
                                         .keep_history_ms = keep_history_ms};
    assert_int_equal(writer_new(&config, &o->w, &reason), 0);
    return o;
}

/* Frees the writer and asserts that all its memory is freed. */
static void close_writer(struct office *o)
{
    assert_true(writer_free(o->w, 20000));
    o->w = NULL;
    assert_int_equal(__atomic_load_n(&seen.blocks, __ATOMIC_SEQ_CST), o->blocks);
}

static void close_office(struct office *o)
{
    if (o->w) {
        close_writer(o);
    }
    event_base_free(o->base);
    folder_remove(o->folder);
}

/* Blocks the thread at the beginning of its next transaction; the thread is in none now. */
static void hold(void)
{
    pthread_mutex_lock(&seen.lock);
    seen.holds = true;
    pthread_mutex_unlock(&seen.lock);
}

static void await_held(void)
{
    pthread_mutex_lock(&seen.lock);
    while (!seen.is_held) {
        pthread_cond_wait(&seen.changed, &seen.lock);
    }
    pthread_mutex_unlock(&seen.lock);
}

static void let_go(void)
{
    pthread_mutex_lock(&seen.lock);
    seen.holds = false;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void set_fails(const char *job, int code)
{
    pthread_mutex_lock(&seen.lock);
    seen.fails = job;
    seen.fails_with = code;
    pthread_mutex_unlock(&seen.lock);
}

static bool has_called(const char *what)
{
    pthread_mutex_lock(&seen.lock);
    bool has = strstr(seen.calls, what) != NULL;
    pthread_mutex_unlock(&seen.lock);
    return has;
}

static int rows_put(void)
{
    pthread_mutex_lock(&seen.lock);
    int n = seen.n_rows;
    pthread_mutex_unlock(&seen.lock);
    return n;
}

static int prunes(void)
{
    return __atomic_load_n(&seen.n_prunes, __ATOMIC_SEQ_CST);
}

static void put_forward(struct office *o, int64_t ms)
{
    __atomic_add_fetch(&seen.ahead_ms, ms, __ATOMIC_SEQ_CST);
    struct writer_request *request;
    assert_int_equal(writer_read(o->w,
                                 &(struct store_page){
                                     .type = MSG_EPOCH_ROW, .job = "nobody", .after = 0, .max = 1},
                                 NULL, NULL, &request),
                     0); /* wakes the thread */
}

static void submit(struct office *o, const char *job, uint64_t epoch, uint64_t predecessor,
                   uint64_t sequence)
{
    struct sample s;
    assert_int_equal(writer_submit(o->w, a_record(&s, job, epoch, predecessor, sequence)), 0);
}

static void note(struct office *o, const char *job, uint64_t epoch)
{
    struct msg_epoch_row row = a_row(epoch);
    assert_int_equal(writer_put_ledger(o->w, job, &row), 0);
}

#define AWAIT(o, part) TURN_UNTIL((o)->base, strstr((o)->told, (part)))
#define AWAIT_CALL(o, part) TURN_UNTIL((o)->base, has_called(part))

/* Returns the ledger of a job as the next server reads it. */
static const char *ledger_after(struct office *o, const char *job)
{
    if (o->w) {
        close_writer(o);
    }
    struct store *store = store_of(o);
    (void)ledger_of(store, job, 0, 100000, &o->read);
    store_close(store);
    return o->read.text;
}

static const char *records_after(struct office *o)
{
    if (o->w) {
        close_writer(o);
    }
    struct store *store = store_of(o);
    (void)all_of(store, &o->read);
    store_close(store);
    return o->read.text;
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; (text = strchr(text, '\n')); text++) {
        n++;
    }
    return n;
}

/* --- records ---------------------------------------------------------------------------------- */

TEST(records, queued_record_is_replaced_without_a_result)
{
    struct office *o = an_office(0);
    hold();
    submit(o, "a", 1, 0, 1);
    await_held();
    submit(o, "a", 2, 1, 2);
    submit(o, "b", 1, 0, 1);
    submit(o, "a", 3, 1, 3);
    let_go();
    AWAIT(o, "b/1=0");
    assert_string_equal(o->told, "a/1=0 a/3=0 b/1=0 ");
    assert_false(has_called("put:a/2"));
    const char *kept = records_after(o);
    assert_non_null(strstr(kept, "a seq=3 run=7/key-1 epoch=1>3"));
    assert_non_null(strstr(kept, "node-1-of-3"));
    assert_null(strstr(kept, "of-1@"));
    close_office(o);
}

TEST(records, failed_transaction_stores_none_and_reports_all)
{
    struct office *o = an_office(0);
    hold();
    submit(o, "a", 1, 0, 1);
    await_held();
    submit(o, "b", 1, 0, 2);
    submit(o, "c", 1, 0, 3);
    submit(o, "d", 1, 0, 4);
    set_fails("c", SQLITE_FULL);
    let_go();
    AWAIT(o, "d/4");
    AWAIT(o, "store=disk full");
    assert_non_null(strstr(o->told, "a/1=0 "));
    assert_non_null(strstr(o->told, "b/2=disk c/3=disk d/4=disk "));
    assert_false(has_called("put:d/1")); /* the writer does not continue a failed transaction */
    set_fails(NULL, 0);
    submit(o, "d", 1, 0, 5);
    AWAIT(o, "d/5=0");
    AWAIT(o, "store=0");
    const char *kept = records_after(o);
    assert_non_null(strstr(kept, "a seq=1"));
    assert_null(strstr(kept, "b seq"));
    assert_null(strstr(kept, "c seq"));
    assert_non_null(strstr(kept, "d seq=5"));
    close_office(o);
}

static int times_told(const struct office *o, const char *part)
{
    int n = 0;
    for (const char *at = o->told; (at = strstr(at, part)); at++) {
        n++;
    }
    return n;
}

TEST(records, failure_is_reported_once_and_again_when_it_changes)
{
    struct office *o = an_office(0);
    set_fails("a", SQLITE_FULL);
    submit(o, "a", 1, 0, 1);
    AWAIT(o, "a/1=disk");
    submit(o, "a", 1, 0, 2);
    AWAIT(o, "a/2=disk");
    AWAIT(o, "store=disk full");
    set_fails("a", SQLITE_IOERR);
    submit(o, "a", 1, 0, 3);
    AWAIT(o, "a/3=disk");
    AWAIT(o, "store=disk error");
    set_fails(NULL, 0);
    submit(o, "a", 1, 0, 4);
    AWAIT(o, "a/4=0");
    submit(o, "a", 1, 1, 5);
    AWAIT(o, "a/5=0");
    AWAIT(o, "store=0");
    (void)writer_deliver(o->w);
    assert_int_equal(times_told(o, "store=disk full"), 1);
    assert_int_equal(times_told(o, "store=disk error"), 1);
    assert_int_equal(times_told(o, "store=0"), 1);
    close_office(o);
}

TEST(records, result_that_cannot_be_accepted_is_repeated)
{
    struct office *o = an_office(0);
    o->refuses = true;
    submit(o, "a", 1, 0, 1);
    AWAIT_CALL(o, "commit");
    submit(o, "b", 1, 0, 2);
    AWAIT_CALL(o, "put:b/1");
    turn_a_while(o->base);
    assert_false(writer_deliver(o->w));
    assert_string_equal(o->told, "");
    o->refuses = false;
    TURN_UNTIL(o->base, writer_deliver(o->w) && strstr(o->told, "b/2"));
    assert_string_equal(o->told, "a/1=0 b/2=0 ");
    close_office(o);
}

TEST(records, record_is_written_before_rows)
{
    struct office *o = an_office(0);
    hold();
    submit(o, "a", 1, 0, 1);
    await_held();
    note(o, "x", 9);
    submit(o, "b", 1, 0, 2);
    let_go();
    AWAIT_CALL(o, "row:x/9");
    const char *b = strstr(seen.calls, "put:b/1");
    assert_non_null(b);
    assert_true(b < strstr(seen.calls, "row:x/9"));
    close_office(o);
}

TEST(records, stopped_writer_reports_nothing)
{
    struct office *o = an_office(0);
    hold();
    submit(o, "a", 1, 0, 1);
    await_held();
    writer_stop(o->w);
    let_go();
    AWAIT_CALL(o, "commit");
    turn_a_while(o->base);
    assert_true(writer_deliver(o->w));
    assert_string_equal(o->told, "");
    close_office(o);
}

TEST(records, queued_records_at_the_end_are_freed_without_result)
{
    struct office *o = an_office(0);
    hold();
    submit(o, "a", 1, 0, 1);
    await_held();
    submit(o, "b", 1, 0, 2);
    struct writer_request *request;
    assert_int_equal(
        writer_read(o->w,
                    &(struct store_page){.type = MSG_EPOCH_ROW, .job = "a", .after = 0, .max = 9},
                    answered, o, &request),
        0);
    writer_stop(o->w);
    let_go();
    const char *kept = records_after(o);
    assert_non_null(strstr(kept, "a seq=1"));
    assert_null(strstr(kept, "b seq"));
    assert_string_equal(o->told, "");
    close_office(o);
}

/* --- ledger ----------------------------------------------------------------------------------- */

TEST(rows, rows_of_a_forgotten_job_are_deleted_and_others_stay)
{
    struct office *o = an_office(0);
    hold();
    submit(o, "z", 1, 0, 1);
    await_held();
    note(o, "a", 1);
    note(o, "b", 1);
    note(o, "a", 2);
    struct sample s;
    (void)a_record(&s, "a", 1, 0, 2);
    s.record.over = s.record.gone = true;
    s.record.n_members = 0;
    s.record.result = RESULT_CANCELLED;
    assert_int_equal(writer_submit(o->w, &s.record), 0);
    let_go();
    AWAIT(o, "a/2=0");
    AWAIT_CALL(o, "row:b/1");
    assert_string_equal(ledger_after(o, "a"), "");
    assert_int_equal(lines_of(ledger_after(o, "b")), 1);
    close_office(o);
}

TEST(rows, ledger_row_starts_with_the_first_record_of_its_epoch)
{
    struct office *o = an_office(0);
    struct sample s;
    submit(o, "a", 4, 0, 1);
    AWAIT(o, "a/1=0");
    __atomic_add_fetch(&seen.ahead_ms, HOUR_MS, __ATOMIC_SEQ_CST);
    submit(o, "a", 4, 4, 2);
    AWAIT(o, "a/2=0");
    (void)a_record(&s, "a", 5, 4, 3);
    s.record.over = true;
    s.record.n_members = 0;
    s.record.result = RESULT_CANCELLED;
    assert_int_equal(writer_submit(o->w, &s.record), 0);
    AWAIT(o, "a/3=0");
    close_writer(o);
    int64_t now = clock_wall().ms;
    const char *ledger = ledger_after(o, "a");
    assert_int_equal(lines_of(ledger), 1);
    assert_non_null(strstr(ledger, "7/4 joined n=2 at "));
    long long committed = 0;
    const char *at = strstr(ledger, "at ");
    for (int i = 0; at && i < EPOCH__TIMES; i++) {
        long long ms = strtoll(at + (i == 0 ? 3 : 1), NULL, 10);
        committed = ms > 0 ? ms : committed;
        at = strchr(at + 1, ',');
    }
    assert_true(committed > 0 && committed < now - HOUR_MS / 2);
    close_office(o);
}

TEST(rows, failed_rows_are_retried_after_5_s_in_order)
{
    struct office *o = an_office(0);
    struct msg_epoch_row row = a_row(1);
    row.has_saved = true;
    row.saved_step = 1;
    set_fails("a", SQLITE_FULL);
    hold();
    assert_int_equal(writer_put_ledger(o->w, "a", &row), 0);
    await_held();
    row.saved_step = 2; /* changes the row while its earlier version is being written */
    assert_int_equal(writer_put_ledger(o->w, "a", &row), 0);
    let_go();
    AWAIT(o, "store=disk full");
    set_fails(NULL, 0);
    put_forward(o, 1000);
    submit(o, "b", 1, 0, 1);
    AWAIT(o, "b/1=0");
    turn_a_while(o->base);
    assert_null(strstr(o->told, "store=0")); /* the disk is not probed after every write */
    put_forward(o, 4500);
    AWAIT(o, "store=0");
    assert_string_equal(o->told, "store=disk full b/1=0 store=0 ");
    assert_non_null(strstr(ledger_after(o, "a"), "saved=2"));
    close_office(o);
}

TEST(rows, last_rows_are_written_at_the_end_unless_the_disk_fails)
{
    struct office *o = an_office(0);
    hold();
    submit(o, "b", 1, 0, 1);
    await_held();
    note(o, "a", 1);
    writer_stop(o->w);
    let_go();
    assert_int_equal(lines_of(ledger_after(o, "a")), 1);
    close_office(o);

    o = an_office(0);
    set_fails("a", SQLITE_FULL);
    note(o, "a", 1);
    AWAIT(o, "store=disk full");
    writer_stop(o->w);
    close_writer(o);
    const char *first = strstr(seen.calls, "row:a/1");
    assert_non_null(first);
    assert_null(strstr(first + 1, "row:a/1"));
    close_office(o);
}

TEST(rows, queue_above_10000_rows_drops_the_oldest)
{
    struct office *o = an_office(0);
    struct sample s;
    hold();
    submit(o, "z", 1, 0, 1);
    await_held();
    for (uint64_t i = 1; i <= ROWS_MAX; i++) {
        note(o, "gone", i);
    }
    (void)a_record(&s, "gone", 1, 0, 2);
    s.record.over = s.record.gone = true;
    s.record.n_members = 0;
    s.record.result = RESULT_CANCELLED;
    assert_int_equal(writer_submit(o->w, &s.record), 0);
    for (uint64_t i = 1; i <= ROWS_MAX;
         i++) { /* rows of deleted jobs do not count towards the limit */
        note(o, "a", i);
    }
    let_go();
    TURN_UNTIL(o->base, rows_put() == ROWS_MAX);
    AWAIT(o, "gone/2=0");
    hold();
    submit(o, "z", 1, 1, 3);
    await_held();
    for (uint64_t i = 1; i <= ROWS_MAX + 2;
         i++) { /* rows being written do not count towards the limit */
        note(o, "b", i);
    }
    let_go();
    TURN_UNTIL(o->base, rows_put() == 2 * ROWS_MAX);
    close_writer(o);
    struct store *store = store_of(o);
    assert_int_equal(strncmp(ledger_of(store, "a", 0, 1, &o->read), "1/1 ", 4), 0);
    assert_int_equal(strncmp(ledger_of(store, "b", 0, 1, &o->read), "1/3 ", 4), 0);
    assert_int_equal(lines_of(ledger_of(store, "b", ROWS_MAX, 9, &o->read)), 2);
    store_close(store);
    assert_int_equal(rows_put(), 2 * ROWS_MAX);
    close_office(o);
}

/* Waits until the writer has set the time of the next pruning: it does so before its next record.
 */
static void await_prune_time(struct office *o)
{
    submit(o, "z", 1, 0, 1);
    AWAIT(o, "z/1=0");
}

TEST(rows, old_rows_are_pruned_and_young_ones_stay)
{
    struct office *o = an_office(10 * HOUR_MS);
    for (uint64_t i = 1; i <= 250;
         i++) { /* an unknown job, with three times the rows of one pruning step */
        note(o, "old", i);
    }
    TURN_UNTIL(o->base, rows_put() == 250 && prunes() == 1);
    await_prune_time(o);
    put_forward(o, 8 * HOUR_MS);
    TURN_UNTIL(o->base, prunes() == 2);
    note(o, "young", 1);
    TURN_UNTIL(o->base, rows_put() == 251);
    put_forward(o, 3 * HOUR_MS);
    TURN_UNTIL(o->base, prunes() >= 5); /* pruning continues without waiting another hour */
    assert_string_equal(ledger_after(o, "old"), "");
    assert_int_equal(lines_of(ledger_after(o, "young")), 1);
    close_office(o);
}

TEST(rows, rows_within_the_retention_are_not_pruned)
{
    struct office *o = an_office(10 * HOUR_MS);
    note(o, "a", 1);
    TURN_UNTIL(o->base, rows_put() == 1 && prunes() == 1);
    await_prune_time(o);
    put_forward(o, 9 * HOUR_MS);
    TURN_UNTIL(o->base, prunes() >= 2);
    assert_int_equal(lines_of(ledger_after(o, "a")), 1);
    close_office(o);
}

TEST(rows, unlimited_retention_prunes_nothing)
{
    struct office *o = an_office(0);
    note(o, "a", 1);
    TURN_UNTIL(o->base, rows_put() == 1);
    put_forward(o, 1000 * HOUR_MS);
    submit(o, "b", 1, 0, 1);
    AWAIT(o, "b/1=0");
    turn_a_while(o->base);
    assert_int_equal(prunes(), 0);
    close_office(o);
}

/* --- queries and copies ----------------------------------------------------------------------- */

TEST(requests, cancelled_request_gets_no_result)
{
    struct office *o = an_office(0);
    struct writer_request *asks[2];
    note(o, "a", 1);
    note(o, "a", 2);
    TURN_UNTIL(o->base, rows_put() == 2);
    assert_int_equal(
        writer_read(o->w,
                    &(struct store_page){.type = MSG_EPOCH_ROW, .job = "a", .after = 0, .max = 9},
                    answered, o, &asks[0]),
        0);
    writer_cancel(o->w, asks[0]);
    assert_int_equal(
        writer_read(o->w,
                    &(struct store_page){.type = MSG_EPOCH_ROW, .job = "a", .after = 1, .max = 9},
                    answered, o, &asks[1]),
        0);
    AWAIT(o, "answer=0 n=1");
    assert_string_equal(o->told, "answer=0 n=1 ");
    close_office(o);
}

TEST(backups, backups_run_in_sequence_and_a_failure_is_reported)
{
    struct office *o = an_office(0);
    struct writer_request *request;
    char one[512];
    char two[512];
    (void)snprintf(one, sizeof(one), "%s", folder_path(o->folder, "one"));
    (void)snprintf(two, sizeof(two), "%s", folder_path(o->folder, "two"));
    hold();
    submit(o, "a", 1, 0, 1);
    await_held();
    assert_int_equal(writer_backup(o->w, one, answered, o, &request), 0);
    assert_int_equal(writer_backup(o->w, two, answered, o, &request), 0);
    let_go();
    AWAIT(o, "answer=0 n=0 answer=0 n=0 ");
    assert_int_equal(access(one, R_OK), 0);
    assert_int_equal(access(two, R_OK), 0);
    assert_int_equal(
        writer_backup(o->w, folder_path(o->folder, "nowhere/x"), answered, o, &request), 0);
    AWAIT(o, "answer=disk");
    o->told[0] = '\0';
    assert_int_equal(writer_backup(o->w, folder_path(o->folder, "three"), answered, o, &request),
                     0);
    AWAIT(o, "answer=0 n=0 ");
    close_office(o);
}

TEST(backups, backup_aborted_at_the_end_leaves_nothing)
{
    struct office *o = an_office(0);
    struct writer_request *request;
    hold();
    assert_int_equal(writer_backup(o->w, folder_path(o->folder, "copy"), answered, o, &request), 0);
    await_held();
    writer_stop(o->w); /* cancels the copy */
    let_go();
    close_writer(o);
    assert_string_equal(o->told, "");
    assert_int_equal(access(folder_path(o->folder, "copy"), F_OK), -1);
    close_office(o);
}
