/* tests/unit/store/test_contract.c: what every store promises, asked of each implementation. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/store/memory.h"
#include "server/store/sqlite.h"
#include "tests/unit/store/records.h"

struct fixture {
    struct store *store;
    bool lasts; /* over a close */
    uint64_t incarnation;
    char dir[64];
    char path[128];
    struct tfe_why why;
    struct sample a, b;
    struct heard heard, wanted;
};

static void open_store(struct fixture *f)
{
    f->incarnation++;
    int err = f->lasts ? sqlite_store_open(f->path, f->incarnation, NOW, NULL, &f->store, &f->why)
                       : memory_store_open(&f->store, &f->why);
    if (err != 0) {
        fail_msg("open: %s", f->why.text);
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
    f->incarnation = 0xf000000000000000ull; /* more than a signed number holds */
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
    int err = put(f->store, record, &f->why);
    if (err != 0) {
        fail_msg("put: %s", f->why.text);
    }
}

TEST(store, every_field_of_a_record_comes_back)
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

TEST(store, the_end_of_a_job_comes_back)
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

TEST(store, jobs_come_back_in_the_order_of_their_names_and_the_newest_record_of_each)
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

TEST(store, several_records_are_kept_together_or_not_at_all)
{
    struct fixture *f = *state;
    assert_int_equal(store_begin(f->store, &f->why), 0);
    assert_int_equal(store_put(f->store, a_record(&f->a, "j", 1, 0, 1), NOW, &f->why), 0);
    assert_int_equal(store_put(f->store, a_record(&f->b, "k", 1, 0, 1), NOW, &f->why), 0);
    store_rollback(f->store);
    assert_string_equal(all_of(f->store, &f->heard), "");
    assert_int_equal(store_begin(f->store, &f->why), 0);
    assert_int_equal(store_put(f->store, a_record(&f->a, "j", 1, 0, 1), NOW, &f->why), 0);
    assert_int_equal(store_put(f->store, a_record(&f->b, "j", 2, 1, 2), NOW, &f->why), 0);
    assert_int_equal(store_commit(f->store, &f->why), 0);
    assert_string_equal(all_of(f->store, &f->heard), text_of(&f->wanted, &f->b.record));
}

TEST(store, a_record_that_does_not_follow_on_what_is_kept_is_a_conflict)
{
    struct fixture *f = *state;
    put_well(f, a_record(&f->a, "j", 5, 0, 3));
    if (f->lasts) {
        store_close(f->store);
        open_store(f); /* from here on it is another server's record */
    }
    assert_int_equal(put(f->store, a_record(&f->b, "j", 7, 6, 2), &f->why), TFE_ECONFLICT);
    assert_non_null(strstr(f->why.text, "epoch 5"));
    assert_int_equal(put(f->store, a_record(&f->b, "j", 7, 4, 2), &f->why), TFE_ECONFLICT);
    /* Epoch numbers never return, whatever else fits. */
    assert_int_equal(put(f->store, a_record(&f->b, "j", 4, 5, 9), &f->why), TFE_ECONFLICT);
    assert_int_equal(put(f->store, a_record(&f->b, "k", 7, 6, 9), &f->why), TFE_ECONFLICT);
    assert_string_equal(all_of(f->store, &f->heard), text_of(&f->wanted, &f->a.record));
    put_well(f, a_record(&f->b, "j", 6, 5, 2));
    assert_string_equal(all_of(f->store, &f->heard), text_of(&f->wanted, &f->b.record));
}

TEST(store, the_core_may_follow_on_a_write_whose_answer_it_has_not_heard)
{
    struct fixture *f = *state;
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    /* Written, but the answer was still under way when the job was stopped. */
    put_well(f, a_record(&f->b, "j", 6, 5, 2));
    put_well(f, a_record(&f->b, "j", 6, 5, 3));
    /* The same once more: the disk had failed after the fact. */
    put_well(f, a_record(&f->b, "j", 6, 5, 3));
    assert_int_equal(put(f->store, a_record(&f->a, "j", 7, 4, 2), &f->why), TFE_ECONFLICT);
}

TEST(store, what_the_reader_refuses_ends_the_load)
{
    struct fixture *f = *state;
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    f->heard = (struct heard){.fail_with = TFE_EINVAL};
    assert_int_equal(store_load(f->store, hear, &f->heard, &f->why), TFE_EINVAL);
    assert_non_null(strstr(f->why.text, "j"));
    f->heard = (struct heard){.fail_with = 0};
    assert_int_equal(store_load(f->store, hear, &f->heard, &f->why), 0);
}

TEST(sqlite, an_older_server_on_the_same_file_is_shut_out)
{
    struct fixture *f = *state;
    struct store *other;
    /* SQLite's own lock is the first thing in the way. */
    assert_int_equal(sqlite_store_open(f->path, 77, NOW, NULL, &other, &f->why), TFE_EDISK);
    assert_non_null(strstr(f->why.text, "held by another program"));
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
}

TEST(sqlite, the_file_is_for_its_owner_only)
{
    struct fixture *f = *state;
    struct stat st;
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

TEST(sqlite, a_job_that_lost_members_on_the_disk_is_not_adopted)
{
    struct fixture *f = *state;
    char command[256];
    put_well(f, a_record(&f->a, "j", 5, 0, 1));
    store_close(f->store);
    (void)snprintf(command, sizeof(command),
                   "python3 -c \"import sqlite3; d = sqlite3.connect('%s'); "
                   "d.execute('DELETE FROM members WHERE seat = 1'); d.commit()\"",
                   f->path);
    assert_int_equal(system(command), 0);
    open_store(f);
    assert_int_equal(store_load(f->store, hear, &f->heard, &f->why), TFE_EINVAL);
    assert_non_null(strstr(f->why.text, "too few members"));
    assert_non_null(strstr(f->why.text, "--recover"));
}

#define BOTH(room, story)                                                                          \
    cmocka_unit_test_setup_teardown(room##__##story, with_memory, done),                           \
        cmocka_unit_test_setup_teardown(room##__##story, with_sqlite, done)
#define SQLITE(room, story) cmocka_unit_test_setup_teardown(room##__##story, with_sqlite, done)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(store, every_field_of_a_record_comes_back),
        BOTH(store, the_end_of_a_job_comes_back),
        BOTH(store, jobs_come_back_in_the_order_of_their_names_and_the_newest_record_of_each),
        BOTH(store, several_records_are_kept_together_or_not_at_all),
        BOTH(store, a_record_that_does_not_follow_on_what_is_kept_is_a_conflict),
        BOTH(store, the_core_may_follow_on_a_write_whose_answer_it_has_not_heard),
        BOTH(store, what_the_reader_refuses_ends_the_load),
        SQLITE(sqlite, an_older_server_on_the_same_file_is_shut_out),
        SQLITE(sqlite, the_file_is_for_its_owner_only),
        SQLITE(sqlite, a_job_that_lost_members_on_the_disk_is_not_adopted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
