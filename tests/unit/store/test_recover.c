/* tests/unit/store/test_recover.c: a damaged file on a real disk: what is salvaged, what is kept of
 * it, and what is not taken for damage. */
#include <sqlite3.h>

#include "server/store/recover.h"
#include "tests/unit/folder.h"
#include "tests/unit/store/records.h"

#define JOBS 60
#define PAGE 4096

/* ctx: how many were whole. */
static int take_in(void *ctx, const struct rdzv_record *record, const char *fault)
{
    uint32_t *n = ctx;
    *n += !fault && record->epoch == 1;
    return fault ? TFE_EINVAL : 0;
}

static void copy_file(const char *from, const char *to, bool damages)
{
    static char bytes[1 << 20];
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    size_t n = fread(bytes, 1, sizeof(bytes), in);
    assert_true(n > PAGE || !damages);
    if (damages) {
        memset(bytes + n / PAGE / 3 * PAGE, 0x5a, n / PAGE / 4 * PAGE);
    }
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    (void)fclose(in);
    (void)fclose(out);
}

static void put_jobs(struct store *store, const char *prefix, int n)
{
    struct sample sample;
    struct tfe_why why;
    char job[32];
    for (int i = 0; i < n; i++) {
        (void)snprintf(job, sizeof(job), "%s-%02d", prefix, i);
        assert_int_equal(put(store, a_record(&sample, job, 1, 0, 1), &why), 0);
    }
}

/* One job lacks a member, a quarter of it is none, and what was written last lies in its log. */
static const char *a_wreck(char folder[FOLDER_BYTES])
{
    static char path[512];
    struct store *store;
    struct tfe_why why;
    sqlite3 *db;
    folder_make(folder);
    const char *whole = folder_path(folder, "whole");
    assert_int_equal(store_open(whole, 1, NOW, NULL, &store, &why), 0);
    put_jobs(store, "old", JOBS);
    store_close(store); /* all in the file */
    assert_int_equal(sqlite3_open(whole, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "DELETE FROM members WHERE job = 'old-00' AND seat = 1", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    assert_int_equal(store_open(whole, 2, NOW, NULL, &store, &why), 0);
    put_jobs(store, "new", 2);
    (void)snprintf(path, sizeof(path), "%s/db", folder);
    copy_file(whole, path, true);
    copy_file(folder_path(folder, "whole-wal"), folder_path(folder, "db-wal"), false);
    store_close(store);
    return path;
}

TEST(salvage, keeps_the_old_file_with_its_log_and_puts_a_whole_one_in_its_place)
{
    char folder[FOLDER_BYTES];
    struct recover_report report;
    struct tfe_why why;
    struct store *store;
    struct stat st;
    uint32_t seen = 0;
    uint32_t loaded = 0;
    const char *path = a_wreck(folder);
    folder_write(folder_path(folder, "db.salvaged"), "what another attempt has left");
    assert_int_equal(sqlite_store_recover(path, NOW, take_in, &seen, &report, &why), 0);
    assert_true(report.was_damaged);
    assert_in_range(report.jobs, 1, JOBS + 1);
    assert_int_equal(report.dropped, 1);
    assert_string_equal(report.kept, folder_path(folder, "db.damaged-1000"));
    assert_int_equal(access(report.kept, F_OK), 0);
    assert_int_equal(stat(folder_path(folder, "db.damaged-1000-wal"), &st), 0);
    assert_true(st.st_size > PAGE);                                    /* as it was */
    assert_int_equal(access(folder_path(folder, "db-wal"), F_OK), -1); /* the new file has none */
    assert_int_equal(access(folder_path(folder, "db.salvaged"), F_OK), -1);
    assert_int_equal(store_open(path, 3, NOW, NULL, &store, &why), 0);
    assert_int_equal(store_load(store, take_in, &loaded, &why), 0);
    assert_int_equal(loaded, report.jobs);
    store_close(store);
    folder_remove(folder);
}

TEST(salvage, takes_nothing_for_damage_that_is_none)
{
    char folder[FOLDER_BYTES];
    struct recover_report report;
    struct tfe_why why;
    uint32_t seen = 0;
    folder_make(folder);
    const char *path = folder_path(folder, "db");
    assert_int_equal(mkdir(path, 0700), 0); /* nothing that can be opened */
    assert_int_equal(sqlite_store_recover(path, NOW, take_in, &seen, &report, &why), TFE_EDISK);
    assert_false(report.was_damaged);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(access(folder_path(folder, "db.salvaged"), F_OK), -1);
    folder_remove(folder);
}
