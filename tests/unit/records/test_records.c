/* tests/unit/records/test_records.c: records as text for people and as JSON for programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/records/epoch_summary.h"
#include "common/records/json_text.h"
#include "common/records/operations.h"
#include "common/records/text_table.h"
#include "tests/unit/test_runner.h"

static const uint32_t pids[] = {7, 8};

static struct node_record a_node(void)
{
    return (struct node_record){.node = {.node = "n1",
                                         .name = "host-a",
                                         .role = ROLE_MEMBER,
                                         .has_rank = true,
                                         .rank = 3,
                                         .host = "10.0.0.5",
                                         .port = 4711,
                                         .pid = 12,
                                         .processes = {.guard_pid = 13,
                                                       .trainer_pids = pids,
                                                       .n_trainer_pids = 2,
                                                       .standby_pids = NULL}},
                                .job = "j"};
}

static void assert_json(const struct record_schema *kind, const void *row, const char *expected)
{
    json_t *object = record_json(kind, row);
    char *text = json_dumps(object, JSON_COMPACT);
    assert_string_equal(text, expected);
    free(text);
    json_decref(object);
}

/* Returns the output of put. */
static char *written(void (*put)(FILE *out, const void *row), const void *row)
{
    char *text = NULL;
    size_t n;
    FILE *out = open_memstream(&text, &n);
    put(out, row);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* The remaining fields of a node and of a job without information. */
#define NOTHING_REPORTED                                                                           \
    ",\"cores\":null,\"memory_mib\":null,\"gpus\":null,\"gpu\":null,\"gpu_memory_mib\":null,"      \
    "\"tensorflow\":null,\"cloud\":null,\"zone\":null,\"instance\":null,\"spot\":null,"            \
    "\"failed_check\":null,"                                                                       \
    "\"load\":null,\"free_mib\":null,\"step_ms\":null,\"work_ms\":null,\"standby\":\"none\","      \
    "\"times\":null,\"slow\":false,\"notice\":null,\"notice_at_ms\":null,\"notice_deadline_ms\":"  \
    "null"
#define NOTHING_TOLD                                                                               \
    ",\"members\":0,\"nodes_known\":0,\"connected\":0,\"ready\":0,\"restarts\":0,\"restarts_"      \
    "left\":0"                                                                                     \
    ",\"ps\":0,\"chief\":false,\"evaluator\":false"                                                \
    ",\"waited_ms\":null,\"waits_up_to_ms\":null,\"step\":null,"                                   \
    "\"total\":null,\"samples\":null,\"steps_per_s\":null,\"samples_per_s\":null,\"slow\":null,"   \
    "\"slow_times\":null,\"memory_bytes\":0,\"workers\":null,\"workers_working\":0,"               \
    "\"workers_done\":0,\"alone\":0,\"priority\":null,\"nodes_assigned\":null,"                    \
    "\"created_ms\":null,\"spec\":null,\"saved_step\":null,\"saved_ms\":null,"                     \
    "\"lingers\":false"

TEST(rows, unknown_fields_of_a_node_are_null)
{
    struct node_record row = a_node();
    row.node.memory = (struct msg_memory){.bytes = 64, .has_snapshot = true, .epoch = 2, .step = 0};
    assert_json(
        &schema_node_of_job, &row,
        "{\"job\":\"j\",\"node\":\"n1\",\"name\":\"host-a\",\"state\":\"member\",\"rank\":3,"
        "\"place\":null,"
        "\"address\":\"10.0.0.5:4711\",\"pid\":12,\"guard_pid\":13,\"trainer_pids\":[7,8],"
        "\"standby_pids\":[],\"waits\":null,\"memory_bytes\":64,\"snapshot_epoch\":2,"
        "\"snapshot_step\":0" NOTHING_REPORTED "}");
    row.node =
        (struct msg_status_node){.node = "n1", .name = "", .role = ROLE_PREPARING, .rank = 9};
    assert_json(
        &schema_node, &row,
        "{\"node\":\"n1\",\"name\":\"\",\"state\":\"preparing\",\"rank\":null,\"place\":null,"
        "\"address\":null,"
        "\"pid\":0,\"guard_pid\":0,\"trainer_pids\":[],\"standby_pids\":[],\"waits\":null,\"memory_"
        "bytes\":0,\"snapshot_epoch\":null,"
        "\"snapshot_step\":null" NOTHING_REPORTED "}");
}

TEST(rows, ipv6_address_is_in_brackets)
{
    struct node_record row = a_node();
    char room[RECORD_TEXT_MAX];
    const void *at = &row;
    row.node.host = "2001:db8::1";
    const struct record_field *f = record_find_field(&schema_node_of_job, "address", NULL, &at);
    assert_ptr_equal(at, &row.node);
    assert_string_equal(record_value(f, at, room).text, "[2001:db8::1]:4711");
    assert_null(record_find_field(&schema_node_of_job, "colour", NULL, &at));
}

/* A struct that contains a job, with fields before and after it. */
struct parcel {
    uint32_t before;
    struct msg_status_job job;
    bool has_after;
    uint64_t after;
};

TEST(rows, fields_of_a_part_appear_at_its_position)
{
    static const struct record_field fields[] = {
        {.key = "before", .type = RECORD_U32, .offset = offsetof(struct parcel, before)},
        {.type = RECORD_PART, .offset = offsetof(struct parcel, job), .part = &schema_job},
        {.key = "after",
         .type = RECORD_U64,
         .offset = offsetof(struct parcel, after),
         .has = offsetof(struct parcel, has_after)}};
    static const struct record_schema kind = {.id = NULL,
                                              .fields = fields,
                                              .n_fields = 3,
                                              .size = sizeof(struct parcel),
                                              .given = sizeof(struct parcel)};
    struct parcel row = {
        .before = 1, .job = {.job = "j", .state = STATE_RUNNING, .min_nodes = 2}, .after = 3};
    assert_json(&kind, &row,
                "{\"before\":1,\"job\":\"j\",\"origin\":\"agents\",\"run\":0,\"state\":\"running\","
                "\"phase\":null,\"since_ms\":null,\"ended_ms\":null,\"reason\":null,"
                "\"retry_in_ms\":null,\"epoch\":0,\"min\":2,\"max\":0,\"waits\":null" NOTHING_TOLD
                ",\"after\":null}");
    struct parcel *copy = record_copy(&kind, &row);
    assert_string_equal(copy->job.job, "j");
    assert_ptr_not_equal(copy->job.job, row.job.job);
    free(copy);
}

TEST(rows, json_is_utf8_for_any_label)
{
    struct msg_status_job row = {
        .job = "a\xff\xc3\xa4\xc3", .state = STATE_WAITING, .reason = "say \"x\"\\"};
    assert_json(&schema_job, &row,
                "{\"job\":\"a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\",\"origin\":\"agents\",\"run\":0,"
                "\"state\":\"waiting\",\"phase\":null,\"since_ms\":null,\"ended_ms\":null,"
                "\"reason\":\"say "
                "\\\"x\\\"\\\\\",\"retry_in_ms\":null,\"epoch\":0,\"min\":0,\"max\":0,\"waits\":"
                "null" NOTHING_TOLD "}");
}

/* The message of a row is only valid during the call. */
TEST(rows, copied_record_owns_its_texts)
{
    struct record_list list = {.v = NULL};
    for (int turn = 0; turn < 40; turn++) {
        char name[] = "host-a";
        char host[] = "10.0.0.5";
        uint32_t own[] = {7, 8};
        struct node_record row = a_node();
        row.node.name = name;
        row.node.host = host;
        row.node.processes.trainer_pids = own;
        assert_int_equal(record_list_add(&list, &schema_node, &row.node), 0);
        memset(name, 'x', sizeof(name) - 1);
        memset(host, 'x', sizeof(host) - 1);
        memset(own, 0, sizeof(own));
    }
    assert_int_equal(list.n, 40);
    const struct node_record *kept = list.v[39].at;
    assert_null(kept->job); /* NULL, because it has not been computed */
    assert_string_equal(kept->node.host, "10.0.0.5");
    assert_memory_equal(kept->node.processes.trainer_pids, pids, sizeof(pids));
    assert_json(&schema_node, kept,
                "{\"node\":\"n1\",\"name\":\"host-a\",\"state\":\"member\",\"rank\":3,\"place\":"
                "null,\"address\":"
                "\"10.0.0.5:4711\",\"pid\":12,\"guard_pid\":13,\"trainer_pids\":[7,8],"
                "\"standby_pids\":[],\"waits\":null,\"memory_bytes\":0,\"snapshot_epoch\":null,"
                "\"snapshot_step\":null" NOTHING_REPORTED "}");
    record_list_done(&list);
    assert_int_equal(list.n, 0);
}

static void put_table(FILE *out, const void *rows)
{
    static const char *const heads[] = {"NAME", "RANK", "ADDRESS", "PID"};
    static const struct text_table t = {&schema_node, heads, 4};
    assert_int_equal(text_table_print(&t, rows, 3, 1, out), 2);
    assert_int_equal(text_table_print(&t, rows, 0, 1, out), 0);
}

TEST(rows, table_cells_have_display_width_and_no_control_characters)
{
    struct node_record a = a_node();
    struct node_record b = {.node = {.node = "n2", .name = "b"}};
    struct msg_status_job job = {.job = "a name that is wide, and not in this table"};
    const struct record rows[] = {{&schema_node, &a}, {&schema_job, &job}, {&schema_node, &b}};
    a.node.name = "k\xc3\xa4\x1b[2J\xc2\x9b\xff";
    char *text = written(put_table, rows);
    assert_string_equal(text, " NAME                RANK  ADDRESS        PID\n"
                              " k\xc3\xa4\\u001b[2J\\u009b\xef\xbf\xbd  3     10.0.0.5:4711  12\n"
                              " b                   -     -              -\n");
    free(text);
}

TEST(rows, duration_has_at_most_two_units)
{
    static const struct {
        int64_t ms;
        const char *text;
    } spans[] = {{-1, "-"},          {0, "0.0s"},         {9999, "9.9s"},     {10000, "10s"},
                 {185000, "3m05s"},  {3599999, "59m59s"}, {8040000, "2h14m"}, {277200000, "3d05h"},
                 {59999, "59s"},     {60000, "1m00s"},    {3600000, "1h00m"}, {86399999, "23h59m"},
                 {86400000, "1d00h"}};
    char room[RECORD_TEXT_MAX];
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        assert_string_equal(text_table_duration(spans[i].ms, room), spans[i].text);
    }
}

static void put_span(FILE *out, const void *rows)
{
    static const char *const heads[] = {"EPOCH", "STANDSTILL"};
    static const struct text_table t = {&schema_epoch, heads, 2};
    assert_int_equal(text_table_print(&t, rows, 2, 0, out), 2);
}

TEST(rows, partly_known_duration_is_shown_as_a_lower_bound)
{
    struct epoch_record a = {.row = {.epoch = 1}, .standstill = 1234};
    struct epoch_record b = {.row = {.epoch = 2}, .standstill = 1234, .is_lower_bound = true};
    const struct record rows[] = {{&schema_epoch, &a}, {&schema_epoch, &b}};
    char *text = written(put_span, rows);
    assert_string_equal(text, "EPOCH  STANDSTILL\n1      1.2s\n2      >= 1.2s\n");
    free(text);
}

/* A list contains rows of several kinds, and a time that is still ahead is left out. */
TEST(rows, json_list_contains_records_of_one_kind)
{
    struct record_list list = {.v = NULL};
    struct msg_status_job job = {.job = "j", .state = STATE_RUNNING};
    struct node_record node = a_node();
    assert_int_equal(record_list_add(&list, &schema_node, &node.node), 0);
    assert_int_equal(record_list_add(&list, &schema_job, &job), 0);
    json_t *array = record_list_json(&list, &schema_job);
    assert_int_equal(json_array_size(array), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(array, 0), "job")), "j");
    json_decref(array);
    record_list_done(&list);
    struct msg_epoch_row epoch = {.epoch = 1, .blamed = ""};
    struct epoch_record row = {.row = epoch, .standstill = 0, .running = -1};
    json_t *object = record_json(&schema_epoch, &row);
    assert_true(json_is_null(json_object_get(object, "blamed")));
    assert_true(json_is_null(json_object_get(object, "started_ms")));
    assert_true(json_is_null(json_object_get(object, "running_ms")));
    assert_int_equal(json_integer_value(json_object_get(object, "standstill_ms")), 0);
    json_decref(object);
}

/* Writes the blamed node: text for people, never a formula or number in a spreadsheet. */
static void put_blamed(FILE *out, const void *row)
{
    record_csv(&schema_epoch, row, out);
}

TEST(rows, csv_field_never_starts_a_formula)
{
    static const struct {
        const char *label, *cell;
    } rows[] = {{"=1", ",\"'=1\","}, {"+1", ",\"'+1\","}, {"-1", ",\"'-1\","},
                {"@A", ",\"'@A\","}, {"a=", ",\"a=\","},  {"", ",\"\","}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct epoch_record row = {.row = {.epoch = 1, .blamed = rows[i].label}};
        char *text = written(put_blamed, &row);
        assert_non_null(strstr(text, rows[i].cell));
        free(text);
    }
}

/* Lists come first in memory, so that numbers are aligned. */
TEST(rows, copied_record_is_aligned)
{
    for (size_t n = 1; n < 9; n++) {
        struct node_record row = a_node();
        char name[16];
        snprintf(name, sizeof(name), "%.*s", (int)n, "a-long-name");
        row.node.name = name;
        struct msg_status_node *copy = record_copy(&schema_node, &row.node);
        assert_int_equal((uintptr_t)copy->processes.trainer_pids % sizeof(uint32_t), 0);
        assert_string_equal(copy->name, name);
        free(copy);
    }
}

static void put_csv(FILE *out, const void *row)
{
    record_csv(&schema_epoch, NULL, out);
    record_csv(&schema_epoch, row, out);
}

TEST(rows, csv_quotes_foreign_text_without_a_formula)
{
    struct epoch_record row = {.row = {.epoch = 5,
                                       .blamed = "=a\",b",
                                       .cause = CAUSE_JOINED,
                                       .has_saved = true,
                                       .saved_step = UINT64_MAX,
                                       .over = true},
                               .running = -1};
    row.row.at[EPOCH_STARTED].ms = 1700000000123;
    char *text = written(put_csv, &row);
    assert_string_equal(
        text,
        "run,epoch,cause,blamed,planned,members,detected_ms,stopped_ms,gathered_ms,committed_ms,"
        "started_ms,listening_ms,progressed_ms,ended_ms,standstill_ms,running_ms,saved_step,"
        "saved_ms,lost_steps,over,restarts,standstill_at_least\n"
        "0,5,joined,\"'=a\"\",b\",0,0,,,,,1700000000123,,,,0,,9223372036854775807,,,1,0,0\n");
    free(text);
}

static void add_epoch(struct record_list *ledger, uint32_t run, uint64_t epoch, int64_t started,
                      int64_t ended)
{
    struct msg_epoch_row row = {
        .run = run, .epoch = epoch, .cause = CAUSE_NODE_LOST, .blamed = "", .over = ended > 0};
    row.at[EPOCH_STARTED].ms = started;
    row.at[EPOCH_ENDED].ms = ended;
    assert_int_equal(record_list_add(ledger, &schema_epoch, &row), 0);
}

static void add_job(struct record_list *ledger, uint32_t run, enum tfe_job_state state,
                    const char *waits)
{
    struct msg_status_job job = {
        .job = "j", .run = run, .state = state, .phase = "", .waits = waits};
    assert_int_equal(record_list_add(ledger, &schema_job, &job), 0);
}

static struct epoch_record *epoch_at(struct record_list *ledger, size_t i)
{
    return ledger->v[i].at;
}

static void assert_span(struct record_list *ledger, size_t i, int64_t standstill,
                        bool is_lower_bound, int64_t running)
{
    assert_int_equal(epoch_at(ledger, i)->standstill, standstill);
    assert_int_equal(epoch_at(ledger, i)->is_lower_bound, is_lower_bound);
    assert_int_equal(epoch_at(ledger, i)->running, running);
}

static const char *saved_text(struct record_list *ledger, size_t i, char buf[RECORD_TEXT_MAX])
{
    const void *row = epoch_at(ledger, i);
    const struct record_field *field = record_find_field(&schema_epoch, NULL, "SAVED", &row);
    const struct record_value value = record_value(field, row, buf);
    return value.form == RECORD_NONE ? "-" : value.text;
}

TEST(epochs, checkpoint_without_a_step_is_shown_in_the_newest_epoch)
{
    char buf[RECORD_TEXT_MAX];
    struct record_list ledger = {.v = NULL};
    add_epoch(&ledger, 1, 1, 1000, 10000);
    add_epoch(&ledger, 1, 2, 10500, 0);
    add_job(&ledger, 1, STATE_RUNNING, NULL);
    struct msg_status_job *job = ledger.v[2].at;
    job->saved.ms = 10400; /* before the newest epoch */
    epochs_compute(&ledger, (struct tfe_wall){.ms = 30000});
    assert_string_equal(saved_text(&ledger, 1, buf), "-");
    job->saved.ms = 12000;
    epochs_compute(&ledger, (struct tfe_wall){.ms = 30000});
    assert_string_equal(saved_text(&ledger, 0, buf), "-");
    assert_string_equal(saved_text(&ledger, 1, buf), "yes");
    assert_int_equal(epoch_at(&ledger, 1)->saved, 12000);
    job->has_saved = true;
    job->saved_step = 7;
    epochs_compute(&ledger, (struct tfe_wall){.ms = 30000});
    assert_string_equal(saved_text(&ledger, 0, buf), "-");
    assert_string_equal(saved_text(&ledger, 1, buf), "7");
    record_list_done(&ledger);
}

TEST(epochs, training_counts_from_the_first_reported_step)
{
    struct record_list ledger = {.v = NULL};
    struct epochs_total total;
    const struct tfe_wall now = {.ms = 30000};
    add_epoch(&ledger, 1, 1, 1000, 10000);
    add_epoch(&ledger, 1, 2, 10500, 12000); /* ended before its first step */
    add_epoch(&ledger, 1, 3, 12500, 0);
    epoch_at(&ledger, 0)->row.at[EPOCH_PROGRESSED].ms = 4000;
    add_job(&ledger, 1, STATE_RUNNING, NULL);
    epochs_compute(&ledger, now);
    assert_span(&ledger, 0, 0, false, 6000);
    assert_span(&ledger, 1, 2000, false, 0);
    assert_span(&ledger, 2, 18000, true, 0); /* it listens but has made no step yet */
    epoch_at(&ledger, 2)->row.at[EPOCH_PROGRESSED].ms = 20000;
    epochs_compute(&ledger, now);
    assert_span(&ledger, 2, 8000, false, 10000);
    epochs_sum(&ledger, now, &total);
    assert_int_equal(total.standstill_all, 10000);
    assert_false(total.is_lower_bound);
    assert_true(total.useful > 61.5 && total.useful < 61.6);
    record_list_done(&ledger);
}

TEST(epochs, standstill_of_a_waiting_job_lasts_until_now)
{
    struct record_list ledger = {.v = NULL};
    struct epochs_total total;
    const struct tfe_wall now = {.ms = 30000};
    add_epoch(&ledger, 1, 1, 1000, 10000);
    add_job(&ledger, 1, STATE_WAITING, "waiting for 1 more node (1 of 2)");
    epochs_compute(&ledger, now);
    epochs_sum(&ledger, now, &total);
    assert_int_equal(total.now, 20000);
    assert_int_equal(total.standstill_all, 20000);
    assert_string_equal(total.job->waits, "waiting for 1 more node (1 of 2)");
    assert_true(total.useful > 31.0 && total.useful < 31.1);
    static const enum tfe_job_state others[] = {STATE_SUCCEEDED, STATE_FAILED, STATE_CANCELLED,
                                                STATE_RUNNING};
    for (size_t i = 0; i < 4; i++) {
        ((struct msg_status_job *)ledger.v[1].at)->state = others[i];
        epochs_sum(&ledger, now, &total);
        assert_int_equal(total.now, -1);
    }
    record_list_done(&ledger);
}

/* What a job waits for may quote an agent. */
TEST(epochs, json_is_utf8_for_any_reason_of_waiting)
{
    struct record_list ledger = {.v = NULL};
    const struct tfe_msg request = operation_request(OPERATION_EPOCHS, "j");
    add_epoch(&ledger, 1, 1, 1000, 10000);
    add_job(&ledger, 1, STATE_WAITING, "waiting for its files on a: \xff");
    assert_int_equal(operation_arrange(OPERATION_EPOCHS, &ledger), 0);
    json_t *json = operation_json(OPERATION_EPOCHS, &ledger, &request);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json_object_get(json, "now"), "waits")),
                        "waiting for its files on a: \xef\xbf\xbd");
    json_decref(json);
    record_list_done(&ledger);
}

/* Reports of one run's script are not applied to other runs. */
TEST(epochs, step_reports_are_judged_per_run)
{
    struct record_list ledger = {.v = NULL};
    struct epochs_total total;
    const struct tfe_wall now = {.ms = 60000};
    add_epoch(&ledger, 1, 1, 1000, 10000);
    add_epoch(&ledger, 2, 2, 20000, 30000);
    add_epoch(&ledger, 2, 3, 31000, 40000);
    add_job(&ledger, 2, STATE_WAITING, NULL);
    /* The first epoch has a known loss, so that it made steps; the second reports nothing. */
    epoch_at(&ledger, 0)->row.has_lost = true;
    epoch_at(&ledger, 0)->row.lost_steps = 3;
    epoch_at(&ledger, 2)->row.has_lost = true;
    epoch_at(&ledger, 2)->row.lost_steps = 4;
    epochs_compute(&ledger, now);
    assert_span(&ledger, 0, 0, false, 9000);
    epochs_sum(&ledger, now, &total);
    assert_int_equal(total.lost_steps, 7);
    assert_true(total.is_lower_bound); /* no step has been made yet */
    epoch_at(&ledger, 2)->row.has_lost = false;
    epochs_compute(&ledger, now);
    assert_span(&ledger, 1, 0, false, 10000);
    assert_span(&ledger, 2, 1000, true, 9000);
    /* The next run failed at once, which the last epoch of this run did not cause. */
    epoch_at(&ledger, 1)->row.cause = CAUSE_TRAINER_FAILED;
    epoch_at(&ledger, 0)->row.has_lost = false;
    epochs_compute(&ledger, now);
    assert_span(&ledger, 0, 0, false, 9000);
    /* The ledger has no row of the job's third run. */
    ((struct msg_status_job *)ledger.v[3].at)->run = 3;
    epochs_sum(&ledger, now, &total);
    assert_int_equal(total.now, -1);
    record_list_done(&ledger);
}

TEST(epochs, ended_epoch_does_not_run_until_now)
{
    struct record_list ledger = {.v = NULL};
    add_epoch(&ledger, 1, 1, 1000, 0);
    epoch_at(&ledger, 0)->row.over = true; /* the end has no time */
    add_job(&ledger, 1, STATE_RUNNING, NULL);
    epochs_compute(&ledger, (struct tfe_wall){.ms = 30000});
    assert_span(&ledger, 0, 0, false, -1);
    record_list_done(&ledger);
}

/* A server that was killed did not record the end, and no node came back: the duration is unknown.
 */
TEST(epochs, epoch_without_observed_end_does_not_run_until_now)
{
    struct record_list ledger = {.v = NULL};
    add_epoch(&ledger, 1, 1, 1000, 0);
    add_job(&ledger, 1, STATE_WAITING, NULL);
    epochs_compute(&ledger, (struct tfe_wall){.ms = 30000});
    assert_span(&ledger, 0, 0, false, -1);
    record_list_done(&ledger);
}

TEST(epochs, repeatedly_failing_script_has_no_useful_time)
{
    struct record_list ledger = {.v = NULL};
    struct epochs_total total;
    const struct tfe_wall now = {.ms = 300000};
    add_epoch(&ledger, 1, 1, 1000, 6000);
    add_epoch(&ledger, 1, 2, 8000, 13000);
    add_epoch(&ledger, 1, 3, 15000, 20000);
    epoch_at(&ledger, 1)->row.cause = epoch_at(&ledger, 2)->row.cause = CAUSE_TRAINER_FAILED;
    epoch_at(&ledger, 2)->row.failed = true;
    add_job(&ledger, 1, STATE_FAILED, NULL);
    epochs_compute(&ledger, now);
    assert_span(&ledger, 0, 5000, false, 0);
    assert_span(&ledger, 1, 7000, false, 0);
    assert_span(&ledger, 2, 7000, false, 0);
    epochs_sum(&ledger, now, &total);
    assert_true(total.useful >= 0 && total.useful < 0.001);
    /* A minute, or a new checkpoint, counts as progress. */
    epoch_at(&ledger, 2)->row.at[EPOCH_ENDED].ms = 75000;
    epoch_at(&ledger, 0)->row.has_saved = epoch_at(&ledger, 1)->row.has_saved = true;
    epoch_at(&ledger, 0)->row.saved_step = epoch_at(&ledger, 1)->row.saved_step = 7;
    epochs_compute(&ledger, now);
    assert_span(&ledger, 0, 0, false, 5000);
    assert_span(&ledger, 1, 7000, false, 0);
    assert_span(&ledger, 2, 2000, true, 60000);
    record_list_done(&ledger);
}

TEST(rows, json_of_a_job_is_embedded_also_when_copied)
{
    char spec[] = "{\"command\":[\"python\",\"train.py\"],\"env\":[\"A\"]}";
    struct msg_status_job row = {.job = "j", .state = STATE_WAITING, .phase = "", .spec = spec};
    struct msg_status_job *copy = record_copy(&schema_job, &row);
    memset(spec, 0, sizeof spec);
    assert_non_null(copy);
    json_t *json = record_json(&schema_job, copy);
    free(copy);
    char *text = json_dumps(json, JSON_COMPACT);
    assert_non_null(
        strstr(text, ",\"spec\":{\"command\":[\"python\",\"train.py\"],\"env\":[\"A\"]},"));
    free(text);
    json_decref(json);
    row.spec = "{"; /* a server of another version */
    json = record_json(&schema_job, &row);
    assert_true(json_is_null(json_object_get(json, "spec")));
    json_decref(json);
}

TEST(epochs, next_run_does_not_change_those_of_a_failed_run)
{
    struct record_list alone = {.v = NULL};
    struct record_list both = {.v = NULL};
    const struct tfe_wall now = {.ms = 300000};
    add_epoch(&alone, 1, 1, 1000, 11000);
    epoch_at(&alone, 0)->row.failed = true;
    add_job(&alone, 1, STATE_FAILED, NULL);
    add_epoch(&both, 1, 1, 1000, 11000);
    epoch_at(&both, 0)->row.failed = true;
    add_epoch(&both, 2, 2, 20000, 0);
    add_job(&both, 2, STATE_RUNNING, NULL);
    epochs_compute(&alone, now);
    epochs_compute(&both, now);
    assert_span(&alone, 0, 10000, false, 0);
    assert_span(&both, 0, 10000, false, 0);
    record_list_done(&alone);
    record_list_done(&both);
}

TEST(epochs, ledger_gives_training_and_standstill_times)
{
    struct record_list ledger = {.v = NULL};
    struct epochs_total total;
    add_epoch(&ledger, 1, 1, 1000, 4000);
    add_epoch(&ledger, 1, 2, 4500, 0); /* the end was not recorded */
    add_epoch(&ledger, 1, 3, 0, 0);    /* this epoch's start was not recorded either */
    add_epoch(&ledger, 2, 4, 10000, 0);
    add_job(&ledger, 2, STATE_RUNNING, NULL);
    ((struct epoch_record *)ledger.v[2].at)->row.at[EPOCH_STOPPED].ms = 6500;
    epochs_compute(&ledger, (struct tfe_wall){.ms = 13000});
    static const struct {
        int64_t began, standstill, running;
    } expected[] = {{1000, 0, 3000}, {4500, 500, 2000}, {-1, -1, -1}, {10000, 0, 3000}};
    for (size_t i = 0; i < 4; i++) {
        const struct epoch_record *row = ledger.v[i].at;
        assert_int_equal(row->began, expected[i].began);
        assert_int_equal(row->standstill, expected[i].standstill);
        assert_int_equal(row->running, expected[i].running);
    }
    assert_true(((struct epoch_record *)ledger.v[1].at)->is_lower_bound); /* no step was recorded */
    epochs_sum(&ledger, (struct tfe_wall){.ms = 13000}, &total);
    assert_int_equal(total.running, 8000);
    assert_int_equal(total.now, -1);
    assert_true(total.is_lower_bound);
    assert_int_equal(total.standstill_all, 500);
    assert_int_equal(total.standstill[CAUSE_NODE_LOST], 500);
    assert_false(total.has_lost);
    assert_true(total.useful > 94.1 && total.useful < 94.2);
    record_list_done(&ledger);
}

/* JSON fields are found by their key, and columns by their heading. */
TEST(schemas, field_names_of_a_record_are_unique)
{
    static const struct record_schema *const kinds[] = {&schema_job, &schema_node_of_job,
                                                        &schema_epoch, &schema_health};
    for (size_t k = 0; k < 4; k++) {
        struct node_record nothing = {.job = NULL};
        const void *at = &nothing;
        const struct record_field *f;
        for (size_t i = 0; (f = record_field(kinds[k], i, &at)) != NULL; i++, at = &nothing) {
            const void *found = &nothing;
            assert_true(!f->key || record_find_field(kinds[k], f->key, NULL, &found) == f);
            found = &nothing;
            assert_true(!f->head || record_find_field(kinds[k], NULL, f->head, &found) == f);
        }
    }
    assert_ptr_equal(schema_of(MSG_STATUS_NODE), &schema_node);
    assert_null(schema_of(MSG_JOIN));
}
