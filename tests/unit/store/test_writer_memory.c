/* tests/unit/store/test_writer_memory.c: without memory the writer refuses requests and leaks
 * nothing. The program checks for leaks at exit. */
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/writer.h"
#include "tests/unit/folder.h"
#include "tests/unit/store/records.h"

/* Number of further allocations that succeed in this thread; -1 for no limit. */
static __thread long left = -1;

static bool is_had(void)
{
    if (left == 0) {
        return false;
    }
    left -= left > 0;
    return true;
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
    return is_had() ? __real_malloc(n) : NULL;
}

void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each)
{
    return is_had() ? __real_calloc(n, each) : NULL;
}

char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__wrap_strdup(const char *s)
{
    return is_had() ? __real_strdup(s) : NULL;
}

static struct {
    char folder[FOLDER_BYTES];
    struct event_base *base;
    struct writer *w;
    unsigned answers;
    struct writer_request *request;
} f;

static bool written(void *ctx, const char *job, uint64_t sequence, int rc)
{
    return true;
}

static void condition(void *ctx, int rc, const char *reason) {}

static void answered(void *ctx, int rc, struct record_list *page, const char *reason)
{
    f.answers++;
}

static int begin(void **state)
{
    static const struct writer_ops ops = {.written = written, .condition = condition};
    struct tfe_reason reason;
    struct store *store;
    f.answers = 0;
    folder_make(f.folder);
    f.base = event_base_new();
    assert_int_equal(store_open(folder_path(f.folder, "db"), 1, NOW, NULL, &store, &reason), 0);
    const struct writer_config config = {.base = f.base, .store = store, .ops = &ops};
    assert_int_equal(writer_new(&config, &f.w, &reason), 0);
    return 0;
}

static int end(void **state)
{
    assert_true(writer_free(f.w, 20000));
    event_base_free(f.base);
    folder_remove(f.folder);
    return 0;
}

#define FIXTURE begin, end

/* Makes the request with each number of successful allocations. Returns how often it was refused.
 */
static unsigned refused(int (*request)(void))
{
    unsigned n = 0;
    int rc = TFE_ENOMEM;
    while (rc == TFE_ENOMEM) {
        left = n;
        rc = request();
        left = -1;
        n += rc == TFE_ENOMEM;
        assert_in_range(n, 0, 100);
    }
    assert_int_equal(rc, 0);
    return n;
}

static int backup(void)
{
    return writer_backup(f.w, folder_path(f.folder, "copy"), answered, NULL, &f.request);
}

static int keep_submission(void)
{
    const struct store_submission row = {
        .job = "j", .number = 1, .bytes = (const uint8_t *)"packed", .n = 6};
    return writer_put_submission(f.w, &row, answered, NULL, &f.request);
}

static int read_rows(void)
{
    const struct store_page page = {.type = MSG_EPOCH_ROW, .job = "j", .max = 10};
    return writer_read(f.w, &page, answered, NULL, &f.request);
}

static int note_row(void)
{
    const struct msg_epoch_row row = a_row(1);
    return writer_put_ledger(f.w, "j", &row);
}

static int submit_record(void)
{
    struct sample sample;
    return writer_submit(f.w, a_record(&sample, "j", 1, 0, 1));
}

TEST_IN(writer_memory, failed_request_allocation_is_refused_without_leak)
{
    static int (*const asks[])(void) = {backup, keep_submission, read_rows};
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        assert_true(refused(asks[i]) > 0);
        TURN_UNTIL(f.base, f.answers == i + 1); /* only the accepted request is answered */
    }
    assert_int_equal(access(folder_path(f.folder, "copy"), F_OK), 0);
}

TEST_IN(writer_memory, failed_row_allocation_is_refused_without_leak)
{
    assert_true(refused(note_row) > 0);
    assert_in_range(writer_n_rows(f.w), 0, 1);
    assert_true(refused(submit_record) > 0);
}
