/* tests/unit/store/test_contract.c: the contract of every store, tested on a file and in memory. */
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/store/store.h"
#include "tests/unit/store/records.h"

struct fixture {
    struct store *store;
    bool lasts; /* true if the content survives closing the store */
    uint64_t incarnation;
    char dir[64];
    char path[128];
    struct tfe_reason reason;
    struct sample a, b;
    struct heard heard, wanted;
};

static void open_store(struct fixture *f)
{
    f->incarnation++;
    int rc = f->lasts ? store_open(f->path, f->incarnation, NOW, NULL, &f->store, &f->reason)
                      : store_open(NULL, f->incarnation, NOW, NULL, &f->store, &f->reason);
    if (rc != 0) {
        fail_msg("open: %s", f->reason.text);
    }
}

static int with_memory(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    open_store(f);
    *state = f;
    return 0;
}

static int with_sqlite(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->lasts = true;
    f->incarnation = 0xf000000000000000ull; /* exceeds a signed 64-bit integer */
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/tfe-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof(f->path), "%s/rdzv.db", f->dir);
    open_store(f);
    *state = f;
    return 0;
}

static int done(void **state)
{
    struct fixture *f = *state;
    store_close(f->store);
    if (f->lasts) {
        char path[160];
        assert_int_equal(unlink(f->path), 0);
        (void)snprintf(path, sizeof(path), "%s-wal", f->path);
        (void)unlink(path);
        assert_int_equal(rmdir(f->dir), 0);
    }
    free(f);
    return 0;
}

static void put_well(struct fixture *f, const struct rdzv_record *record)
{
    int rc = put(f->store, record, &f->reason);
    if (rc != 0) {
        fail_msg("put: %s", f->reason.text);
    }
}

#define FIXTURE with_sqlite, done
#define TEST_BOTH(room, story)                                                                     \
    static void room##__##story(void **state);                                                     \
    STORY(in_memory, room##__##story, with_memory, done)                                           \
    TEST_IN(room, story)

TEST_BOTH(store, every_field_of_a_record_comes_back)
{
    struct fixture *f = *state;
    const struct rdzv_record *record = a_record(&f->a, "j", 5, 0, 1);
    put_well(f, record);
    assert_string_equal(all_of(f->store, &f->heard), text_of(&f->wanted, record));
    if (f->lasts) {
        store_close(f->store);
        open_store(f);
        assert_string_equal(all_of(f->store, &f->heard), f->wanted.text);
    }
}

TEST_BOTH(store, the_end_of_a_job_comes_back)
{
    struct fixture *f = *state;
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    (void)a_record(&f->b, "j", 5, 5, 2);
    f->b.record.over = true;
    f->b.record.result = RESULT_FAILED;
    f->b.record.sentence = "job j failed:\nrank 3";
    f->b.record.ended = (struct tfe_wall){.ms = 1234567890123};
    f->b.record.n_members = 0;
    put_well(f, &f->b.record);
    assert_string_equal(all_of(f->store, &f->heard), text_of(&f->wanted, &f->b.record));
}

TEST_BOTH(store, jobs_come_back_in_the_order_of_their_names_and_the_newest_record_of_each)
{
    struct fixture *f = *state;
    put_well(f, a_record(&f->a, "k", 1, 0, 1));
    put_well(f, a_record(&f->a, "j", 1, 0, 1));
    put_well(f, a_record(&f->a, "l", 1, 0, 1));
    put_well(f, a_record(&f->a, "k", 2, 1, 2));
    (void)all_of(f->store, &f->heard);
    char wanted[3 * 1024] = "";
    (void)snprintf(wanted, sizeof(wanted), "%s",
                   text_of(&f->wanted, a_record(&f->a, "j", 1, 0, 1)));
    (void)strcat(wanted, text_of(&f->wanted, a_record(&f->a, "k", 2, 1, 2)));
    (void)strcat(wanted, text_of(&f->wanted, a_record(&f->a, "l", 1, 0, 1)));
    assert_string_equal(f->heard.text, wanted);
}

TEST_BOTH(store, several_records_are_kept_together_or_not_at_all)
{
    struct fixture *f = *state;
    assert_int_equal(store_begin(f->store, &f->reason), 0);
    assert_int_equal(put_record(f->store, a_record(&f->a, "j", 1, 0, 1), &f->reason), 0);
    assert_int_equal(put_record(f->store, a_record(&f->b, "k", 1, 0, 1), &f->reason), 0);
    store_rollback(f->store);
    assert_string_equal(all_of(f->store, &f->heard), "");
    assert_int_equal(store_begin(f->store, &f->reason), 0);
    assert_int_equal(put_record(f->store, a_record(&f->a, "j", 1, 0, 1), &f->reason), 0);
    assert_int_equal(put_record(f->store, a_record(&f->b, "j", 2, 1, 2), &f->reason), 0);
    assert_int_equal(store_commit(f->store, &f->reason), 0);
    assert_string_equal(all_of(f->store, &f->heard), text_of(&f->wanted, &f->b.record));
}

TEST_BOTH(store, a_record_that_does_not_follow_on_what_is_kept_is_a_conflict)
{
    struct fixture *f = *state;
    put_well(f, a_record(&f->a, "j", 5, 0, 3));
    if (f->lasts) {
        store_close(f->store);
        open_store(f); /* from here on the record belongs to another server's incarnation */
    }
    assert_int_equal(put(f->store, a_record(&f->b, "j", 7, 6, 2), &f->reason), TFE_ECONFLICT);
    assert_non_null(strstr(f->reason.text, "epoch 5"));
    assert_int_equal(put(f->store, a_record(&f->b, "j", 7, 4, 2), &f->reason), TFE_ECONFLICT);
    /* Epoch numbers are never reused, even if all else matches. */
    assert_int_equal(put(f->store, a_record(&f->b, "j", 4, 5, 9), &f->reason), TFE_ECONFLICT);
    assert_int_equal(put(f->store, a_record(&f->b, "k", 7, 6, 9), &f->reason), TFE_ECONFLICT);
    assert_string_equal(all_of(f->store, &f->heard), text_of(&f->wanted, &f->a.record));
    put_well(f, a_record(&f->b, "j", 6, 5, 2));
    assert_string_equal(all_of(f->store, &f->heard), text_of(&f->wanted, &f->b.record));
}

TEST_BOTH(store, the_core_may_follow_on_a_write_whose_answer_it_has_not_heard)
{
    struct fixture *f = *state;
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    /* The record was written, but its confirmation was still on its way when the job was stopped.
     */
    put_well(f, a_record(&f->b, "j", 6, 5, 2));
    put_well(f, a_record(&f->b, "j", 6, 5, 3));
    /* The same write is repeated: the disk had failed after writing it. */
    put_well(f, a_record(&f->b, "j", 6, 5, 3));
    assert_int_equal(put(f->store, a_record(&f->a, "j", 7, 4, 2), &f->reason), TFE_ECONFLICT);
}

static void note_at(struct fixture *f, const char *job, const struct msg_epoch_row *row,
                    struct tfe_wall now)
{
    assert_int_equal(store_begin(f->store, &f->reason), 0);
    assert_int_equal(store_put_row(f->store, job, row, now, &f->reason), 0);
    assert_int_equal(store_commit(f->store, &f->reason), 0);
}

TEST_BOTH(store, a_job_that_is_forgotten_leaves_nothing_and_can_be_forgotten_twice)
{
    struct fixture *f = *state;
    struct msg_epoch_row row = a_row(5);
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    note_at(f, "j", &row, NOW);
    struct rdzv_record gone = {
        .job = "j", .gone = true, .sequence = 2, .predecessor = 5, .epoch = 5};
    put_well(f, &gone);
    assert_string_equal(all_of(f->store, &f->heard), "");
    assert_string_equal(ledger_of(f->store, "j", 0, 10, &f->heard), "");
    put_well(f, &gone); /* repeats the deletion, whose confirmation was lost */
    put_well(f, a_record(&f->b, "j", 1, 0, 1));
    assert_string_equal(all_of(f->store, &f->heard), text_of(&f->wanted, &f->b.record));
    gone.predecessor = 4;
    gone.sequence = 0;
    assert_int_equal(put(f->store, &gone, &f->reason), TFE_ECONFLICT);
}

TEST_BOTH(store, a_reader_that_finds_no_memory_ends_the_load)
{
    struct fixture *f = *state;
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    f->heard = (struct heard){.fail_with = TFE_ENOMEM};
    assert_int_equal(store_load(f->store, hear, &f->heard, &f->reason), TFE_ENOMEM);
    assert_non_null(strstr(f->reason.text, "j"));
    f->heard = (struct heard){.fail_with = 0};
    assert_int_equal(store_load(f->store, hear, &f->heard, &f->reason), 0);
    assert_string_equal(f->heard.text, text_of(&f->wanted, &f->a.record));
}

TEST_BOTH(store, a_job_that_its_reader_refuses_is_set_aside_and_can_begin_anew)
{
    /* Regression: one invalid record kept the server from starting, for all jobs. */
    struct fixture *f = *state;
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    f->heard = (struct heard){.fail_with = TFE_EINVAL};
    assert_int_equal(store_load(f->store, hear, &f->heard, &f->reason), 0);
    assert_string_equal(f->heard.text, "j aside: the record is inconsistent\n");
    assert_string_equal(all_of(f->store, &f->heard), "j aside: it was set aside earlier\n");
    put_well(f, a_record(&f->b, "j", 1, 0, 1)); /* no conflict with the record that was set aside */
    text_of(&f->wanted, &f->b.record);
    assert_non_null(strstr(all_of(f->store, &f->heard), f->wanted.text));
    f->heard = (struct heard){.fail_with = TFE_EINVAL}; /* sets the record aside a second time */
    assert_int_equal(store_load(f->store, hear, &f->heard, &f->reason), 0);
    assert_string_equal(all_of(f->store, &f->heard), "j aside: it was set aside earlier\n");
}

TEST_BOTH(ledger, what_a_row_knows_is_kept_when_a_later_one_does_not)
{
    struct fixture *f = *state;
    struct msg_epoch_row row = a_row(4);
    row.at[EPOCH_DETECTED].ms = 10;
    row.at[EPOCH_STARTED].ms = 20;
    row.blamed = "näme, \"quoted\"";
    row.planned = true;
    row.has_saved = true;
    row.saved_step = UINT64_MAX;
    note_at(f, "j", &row, NOW);
    row = a_row(4);
    row.at[EPOCH_STARTED].ms = 21;
    row.at[EPOCH_ENDED].ms = 30;
    row.has_lost = true;
    row.over = true;
    note_at(f, "j", &row, NOW);
    assert_string_equal(ledger_of(f->store, "j", 0, 10, &f->heard),
                        "1/4 start by näme, \"quoted\" n=3 at 10,0,0,0,21,0,0,30 "
                        "saved=18446744073709551615 lost=0 planned over\n");
    row = a_row(4);
    row.at[EPOCH_GATHERED].ms = -1; /* a time from a clock that was wrong */
    note_at(f, "j", &row, NOW);
    assert_string_equal(ledger_of(f->store, "j", 0, 10, &f->heard),
                        "1/4 start by näme, \"quoted\" n=3 at 10,0,0,0,21,0,0,30 "
                        "saved=18446744073709551615 lost=0 planned over\n");
    row = a_row(3);
    note_at(f, "j", &row, NOW); /* the new row is not merged with the row of another epoch */
    assert_string_equal(ledger_of(f->store, "j", 0, 1, &f->heard),
                        "1/3 start n=3 at 0,0,0,0,0,0,0,0\n");
    if (f->lasts) {
        store_close(f->store);
        open_store(f);
        assert_non_null(strstr(ledger_of(f->store, "j", 0, 10, &f->heard), "21,0,0,30"));
    }
}

/* After a restart the server may receive a step that is not the epoch's first. */
TEST_BOTH(ledger, of_first_steps_the_earliest_is_kept)
{
    struct fixture *f = *state;
    static const int64_t told[] = {50, 80, 40, 0};
    for (size_t i = 0; i < 4; i++) {
        struct msg_epoch_row row = a_row(4);
        row.at[EPOCH_PROGRESSED].ms = told[i];
        note_at(f, "j", &row, NOW);
        assert_non_null(strstr(ledger_of(f->store, "j", 0, 10, &f->heard),
                               i < 2 ? "at 0,0,0,0,0,0,50,0" : "at 0,0,0,0,0,0,40,0"));
    }
}

TEST_BOTH(ledger, is_read_job_by_job_in_pages_in_the_order_of_epochs)
{
    struct fixture *f = *state;
    static const uint64_t epochs[] = {9, 3, 5, 12};
    for (size_t i = 0; i < 4; i++) {
        struct msg_epoch_row row = a_row(epochs[i]);
        note_at(f, "j", &row, NOW);
        note_at(f, i % 2 == 0 ? "i" : "k", &row, NOW);
    }
    (void)ledger_of(f->store, "j", 0, 2, &f->heard);
    assert_non_null(strstr(f->heard.text, "1/3 "));
    assert_non_null(strstr(f->heard.text, "1/5 "));
    assert_null(strstr(f->heard.text, "1/9 "));
    (void)ledger_of(f->store, "j", 5, 10, &f->heard);
    assert_null(strstr(f->heard.text, "1/5 "));
    assert_true(strstr(f->heard.text, "1/9 ") < strstr(f->heard.text, "1/12 "));
    assert_string_equal(ledger_of(f->store, "nobody", 0, 10, &f->heard), "");
}

TEST_BOTH(ledger, a_transaction_that_is_rolled_back_leaves_no_row)
{
    struct fixture *f = *state;
    struct msg_epoch_row row = a_row(1);
    assert_int_equal(store_begin(f->store, &f->reason), 0);
    assert_int_equal(store_put_row(f->store, "j", &row, NOW, &f->reason), 0);
    store_rollback(f->store);
    assert_string_equal(ledger_of(f->store, "j", 0, 10, &f->heard), "");
}

TEST_BOTH(ledger, is_pruned_in_small_steps_by_age_and_never_where_a_job_stands)
{
    struct fixture *f = *state;
    uint32_t n = 0;
    put_well(f, a_record(&f->a, "j", 2, 0, 1));
    for (uint64_t epoch = 1; epoch <= 6; epoch++) {
        struct msg_epoch_row row = a_row(epoch);
        note_at(f, "j", &row, (struct tfe_wall){.ms = (int64_t)epoch * 1000});
    }
    struct tfe_wall before = {.ms = 5000};
    assert_int_equal(store_prune(f->store, before, 2, &n, &f->reason), 0);
    assert_int_equal(n, 2);
    assert_int_equal(store_prune(f->store, before, 2, &n, &f->reason), 0);
    assert_int_equal(n, 1);
    assert_int_equal(store_prune(f->store, before, 2, &n, &f->reason), 0);
    assert_int_equal(n, 0);
    (void)ledger_of(f->store, "j", 0, 10, &f->heard);
    assert_null(strstr(f->heard.text, "1/1 "));
    assert_non_null(strstr(f->heard.text, "1/2 "));
    assert_null(strstr(f->heard.text, "1/3 "));
    assert_null(strstr(f->heard.text, "1/4 "));
    assert_non_null(strstr(f->heard.text, "1/5 "));
}

STORY_TOLD(backup, of_memory_is_refused, with_memory, done)
{
    struct fixture *f = *state;
    assert_int_equal(store_backup(f->store, "/tmp/never", to_its_end, NULL, &f->reason),
                     TFE_EINVAL);
    assert_non_null(strstr(f->reason.text, "--ephemeral"));
}

TEST_IN(backup, backup_is_a_complete_store_readable_by_its_owner)
{
    struct fixture *f = *state;
    char copy[160];
    struct stat st;
    for (uint64_t i = 1; i <= 50; i++) {
        struct msg_epoch_row row = a_row(i);
        note_at(f, "j", &row, NOW);
    }
    put_well(f, a_record(&f->a, "j", 1, 0, 1));
    (void)snprintf(copy, sizeof(copy), "%s/copy.db", f->dir);
    assert_int_equal(store_backup(f->store, copy, to_its_end, NULL, &f->reason), 0);
    (void)all_of(f->store, &f->wanted);
    put_well(f, a_record(&f->b, "j", 2, 1, 2)); /* the store remains usable */
    assert_int_equal(store_backup(f->store, copy, to_its_end, NULL, &f->reason), TFE_EEXIST);
    assert_non_null(strstr(f->reason.text, "nothing was overwritten"));
    assert_int_equal(stat(copy, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct store *second;
    assert_int_equal(store_open(copy, 5, NOW, NULL, &second, &f->reason), 0);
    assert_string_equal(all_of(second, &f->heard), f->wanted.text);
    assert_non_null(strstr(ledger_of(second, "j", 49, 10, &f->heard), "1/50 "));
    store_close(second);
    assert_int_equal(unlink(copy), 0);
    (void)snprintf(copy, sizeof(copy), "%s/copy.db-wal", f->dir);
    (void)unlink(copy);
}

TEST_IN(backup, failed_backup_leaves_nothing_and_removes_earlier_leftovers)
{
    struct fixture *f = *state;
    char copy[160];
    char part[200];
    put_well(f, a_record(&f->a, "j", 1, 0, 1));
    (void)snprintf(copy, sizeof(copy), "%s/no/such/directory", f->dir);
    assert_int_equal(store_backup(f->store, copy, to_its_end, NULL, &f->reason), TFE_EDISK);
    assert_non_null(strstr(f->reason.text, copy)); /* tear-down checks that no file is left */
    (void)snprintf(copy, sizeof(copy), "%s/copy.db", f->dir);
    (void)snprintf(part, sizeof(part), "%s/.copy.db.part", f->dir);
    FILE *file = fopen(part, "w");
    assert_non_null(file);
    assert_int_equal(fputs("of a server that was killed", file) < 0, 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(store_backup(f->store, copy, to_its_end, NULL, &f->reason), 0);
    assert_int_equal(access(part, F_OK), -1);
    assert_int_equal(unlink(copy), 0);
}

TEST_IN(sqlite, older_server_on_the_same_file_is_fenced_off)
{
    struct fixture *f = *state;
    struct store *other;
    /* SQLite's own lock is hit first. */
    assert_int_equal(store_open(f->path, 77, NOW, NULL, &other, &f->reason), TFE_EDISK);
    assert_non_null(strstr(f->reason.text, "locked by another process"));
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
}

TEST_IN(sqlite, file_is_readable_by_its_owner_only)
{
    struct fixture *f = *state;
    struct stat st;
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void change(struct fixture *f, const char *sql)
{
    sqlite3 *db;
    store_close(f->store);
    assert_int_equal(sqlite3_open(f->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* Every truncated, extended or altered record is either set aside or still valid; the other
 * records are loaded. */
TEST_IN(sqlite, incomplete_record_is_not_adopted)
{
    struct fixture *f = *state;
    static const char *const bad[] = {
        "substr(record, 1, length(record) - 1)",
        "substr(record, 1, 20)",
        "x''",
        "record || x'00'",
        "'text'",
        "x'ffffffffffffffffffffff'",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char sql[160];
        put_well(f, a_record(&f->a, "j", 5, i == 0 ? 0 : 5, 1));
        if (i == 0) {
            put_well(f, a_record(&f->b, "k", 5, 0, 1));
        }
        (void)a_record(&f->b, "k", 5, 0, 1);
        (void)snprintf(sql, sizeof(sql), "UPDATE jobs SET record = %s WHERE name = 'j'", bad[i]);
        change(f, sql);
        open_store(f);
        text_of(&f->wanted, &f->b.record);
        assert_non_null(strstr(all_of(f->store, &f->heard), f->wanted.text));
        assert_non_null(strstr(f->heard.text, "j aside: its record cannot be read\n"));
        struct rdzv_record gone = {.job = "j", .gone = true, .epoch = 5, .predecessor = 0};
        put_well(f, &gone);
        put_well(f, a_record(&f->a, "j", 5, 0, 1));
    }
}

TEST_IN(sqlite, record_of_random_bytes_is_read_within_bounds)
{
    struct fixture *f = *state;
    struct store_record *packed = job_record_pack(a_record(&f->a, "j", 5, 0, 1));
    struct rdzv_record *record;
    uint32_t n_read = 0;
    assert_non_null(packed);
    for (size_t i = 0; i < packed->n; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            packed->bytes[i] ^= (uint8_t)(1u << bit);
            n_read += job_record_unpack("j", packed->bytes, packed->n, &record) == 0;
            free(record);
            packed->bytes[i] ^= (uint8_t)(1u << bit);
        }
        assert_int_equal(job_record_unpack("j", packed->bytes, i, &record), TFE_EINVAL);
    }
    assert_in_range(n_read, 1, 8 * packed->n - 1);
    free(packed);
}

TEST_IN(sqlite, file_with_another_schema_is_refused_unchanged)
{
    struct fixture *f = *state;
    static const char *const others[] = {"PRAGMA user_version=13", "PRAGMA user_version=999"};
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        change(f, others[i]);
        assert_int_equal(store_open(f->path, 9, NOW, NULL, &f->store, &f->reason), TFE_EDISK);
        assert_non_null(strstr(f->reason.text, "another version of tfe-rdzv"));
        assert_non_null(strstr(f->reason.text, "nothing was changed"));
        f->store = NULL;
    }
    change(f, "PRAGMA user_version=23");
    open_store(f);
    assert_string_equal(all_of(f->store, &f->heard), text_of(&f->wanted, &f->a.record));
}

/* --- keys ------------------------------------------------------------------------------------- */

static int hear_key(void *ctx, const struct tfe_msg *msg)
{
    char *said = ctx;
    const struct msg_token_row *k = &msg->u.token_row;
    size_t n = strlen(said);
    (void)snprintf(said + n, 512 - n, "%s %u %s %s %u %u %s %lld %lld %lld %u\n", k->key,
                   (unsigned)k->role, k->scope, k->label, (unsigned)k->generation,
                   (unsigned)k->uses, k->used_by, (long long)k->made.ms, (long long)k->expires.ms,
                   (long long)k->revoked.ms, (unsigned)k->quota);
    return 0;
}

static void keep_key(struct fixture *f, const struct msg_token_row *row)
{
    assert_int_equal(store_begin(f->store, &f->reason), 0);
    assert_int_equal(store_put_message(f->store, MSG_TOKEN_ROW, row, &f->reason), 0);
    assert_int_equal(store_commit(f->store, &f->reason), 0);
}

TEST_BOTH(keys, what_was_kept_last_of_a_key_is_what_is_read)
{
    struct fixture *f = *state;
    char said[512] = "";
    struct msg_token_row one = {"aa", 1, "team-*", "label", 2, 3, "", {10}, {20}, {0}, "good", 4};
    const struct msg_token_row two = {"bb", 3, "*", "", 0, 0, "", {11}, {0}, {0}, "good", 0};
    keep_key(f, &one);
    keep_key(f, &two);
    one.used_by = "n1,n2";
    one.revoked.ms = 30;
    keep_key(f, &one);
    assert_int_equal(store_read(f->store, &(struct store_page){.type = MSG_TOKEN_ROW, .max = 99},
                                hear_key, said, &f->reason),
                     0);
    assert_string_equal(said, "aa 1 team-* label 2 3 n1,n2 10 20 30 4\nbb 3 *  0 0  11 0 0 0\n");
}

/* An earlier row may arrive after a later one if the disk refused it at first. */
TEST_BOTH(keys, what_was_revoked_stays_it)
{
    struct fixture *f = *state;
    char said[512] = "";
    struct msg_token_row one = {"aa", 1, "*", "", 0, 3, "n1", {10}, {0}, {30}, "good", 0};
    keep_key(f, &one);
    one.revoked.ms = 0;
    keep_key(f, &one);
    assert_int_equal(store_read(f->store, &(struct store_page){.type = MSG_TOKEN_ROW, .max = 99},
                                hear_key, said, &f->reason),
                     0);
    assert_string_equal(said, "aa 1 *  0 3 n1 10 0 30 0\n");
}

static int hear_submission(void *ctx, const struct store_submission *row)
{
    char *said = ctx;
    size_t n = strlen(said);
    (void)snprintf(said + n, 512 - n, "%s %llu %.*s\n", row->job, (unsigned long long)row->number,
                   (int)row->n, (const char *)row->bytes);
    return 0;
}

TEST_BOTH(submissions, the_last_of_each_is_kept_in_their_order)
{
    struct fixture *f = *state;
    char said[512] = "";
#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1
    struct store_submission rows[] = {
        {"a", 7, BYTES("one"), false},   {"b", 3, BYTES(""), false},
        {"c", 4, BYTES("gone"), false},  {"c", 4, BYTES(""), true},
        {"b", 8, BYTES("again"), false},
    };
    assert_int_equal(store_begin(f->store, &f->reason), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(store_put_message(f->store, STORE_SUBMISSION, &rows[i], &f->reason), 0);
    }
    assert_int_equal(store_commit(f->store, &f->reason), 0);
    assert_int_equal(store_read_submissions(f->store, hear_submission, said, &f->reason), 0);
    assert_string_equal(said, "a 7 one\nb 8 again\n");
}

static int hear_ban(void *ctx, const struct tfe_msg *msg)
{
    (void)strcat(ctx, msg->u.ban_row.node);
    return 0;
}

TEST_BOTH(keys, keys_and_bans_that_ended_go_with_the_history)
{
    struct fixture *f = *state;
    char said[512] = "";
    uint32_t n;
    const struct msg_token_row rows[] = {
        {"0201", 1, "*", "good", 0, 0, "", {10}, {0}, {0}, "", 0},
        {"0202", 1, "*", "expires", 0, 0, "", {10}, {101}, {0}, "", 0},
        {"0203", 1, "*", "expired", 0, 0, "", {10}, {99}, {0}, "", 0},
        {"0204", 1, "*", "revoked late", 0, 0, "", {10}, {0}, {101}, "", 0},
        {"0205", 1, "*", "revoked", 0, 0, "", {10}, {0}, {99}, "", 0},
        {"0106", 1, "*", "good without a row", 0, 0, "", {10}, {0}, {99}, "", 0},
        {"0207", 3, "a-*", "said before", 0, 0, "", {10}, {99}, {0}, "", 5},
        {"0208", 3, "a-*", "said last", 0, 0, "", {11}, {99}, {0}, "", 4},
        {"0209", 3, "a-*", "says nothing", 0, 0, "", {12}, {99}, {0}, "", 0},
        {"020a", 3, "b-*", "revoked", 0, 0, "", {11}, {0}, {99}, "", 6},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        keep_key(f, &rows[i]);
    }
    assert_int_equal(store_begin(f->store, &f->reason), 0);
    const struct msg_ban_row bans[] = {{"over", "j", "", "", "", {99}},
                                       {"on", "j", "", "", "", {101}}};
    assert_int_equal(store_put_message(f->store, MSG_BAN_ROW, &bans[0], &f->reason), 0);
    assert_int_equal(store_put_message(f->store, MSG_BAN_ROW, &bans[1], &f->reason), 0);
    assert_int_equal(store_commit(f->store, &f->reason), 0);
    assert_int_equal(store_prune(f->store, (struct tfe_wall){100}, 10, &n, &f->reason), 0);
    assert_int_equal(store_read(f->store, &(struct store_page){.type = MSG_TOKEN_ROW, .max = 99},
                                hear_key, said, &f->reason),
                     0);
    assert_string_equal(said, "0106 1 * good without a row 0 0  10 0 99 0\n"
                              "0201 1 * good 0 0  10 0 0 0\n"
                              "0202 1 * expires 0 0  10 101 0 0\n"
                              "0204 1 * revoked late 0 0  10 0 101 0\n"
                              "0208 3 a-* said last 0 0  11 99 0 4\n"
                              "020a 3 b-* revoked 0 0  11 0 99 6\n");
    said[0] = '\0';
    assert_int_equal(store_read(f->store, &(struct store_page){.type = MSG_BAN_ROW, .max = 99},
                                hear_ban, said, &f->reason),
                     0);
    assert_string_equal(said, "on");
}
