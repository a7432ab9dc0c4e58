/* tests/unit/ctl/test_watch.c: the display of tfe-ctl watch, and the progress of a job. */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/records/epoch_summary.h"
#include "common/records/schemas.h"
#include "server/ctl/progress_line.h"
#include "server/ctl/watch_view.h"
#include "tests/unit/test_runner.h"

#define NOW 1700000100000

static void add(struct record_list *list, const struct record_schema *kind, const void *row)
{
    assert_int_equal(record_list_add(list, kind, row), 0);
}

static void add_node(struct watch_model *m, const char *id, const char *name, int rank,
                     enum tfe_node_role role)
{
    add(&m->status, &schema_node,
        &(struct msg_status_node){.node = id,
                                  .name = name,
                                  .role = role,
                                  .has_rank = rank >= 0,
                                  .rank = rank >= 0 ? (uint32_t)rank : 0,
                                  .host = "10.0.0.5",
                                  .port = 4711});
}

static void add_epoch(struct watch_model *m, uint64_t epoch, enum tfe_cause cause, int64_t began,
                      int64_t ended)
{
    struct msg_epoch_row row = {.run = 1,
                                .epoch = epoch,
                                .cause = cause,
                                .blamed = cause == CAUSE_NODE_LOST ? "b" : "",
                                .members = 2};
    row.at[EPOCH_PROGRESSED].ms = NOW - began;
    row.at[EPOCH_ENDED].ms = ended > 0 ? NOW - ended : 0;
    row.over = ended > 0;
    add(&m->ledger, &schema_epoch, &row);
}

/* Builds a model with two jobs, of which "train" is selected; "train" has lost a node and waits
 * for another. */
static void make(struct watch_model *m)
{
    static const struct msg_status_job train = {.job = "train",
                                                .state = STATE_RUNNING,
                                                .run = 1,
                                                .epoch = 2,
                                                .min_nodes = 1,
                                                .max_nodes = 3,
                                                .members = 2,
                                                .waits = "one more node may join",
                                                .waits_ms = 5000,
                                                .since = {NOW - 65000}};
    *m = (struct watch_model){
        .server = "[::1]:5556", .now = {NOW}, .has_answer = true, .utf8 = false};
    (void)id_set(&m->job, "train");
    add(&m->jobs, &schema_job, &train);
    add(&m->jobs, &schema_job,
        &(struct msg_status_job){
            .job = "old", .state = STATE_FAILED, .min_nodes = 1, .max_nodes = 1});
    add(&m->status, &schema_job, &train);
    add_node(m, "n2", "a", 1, ROLE_MEMBER);
    add_node(m, "n1", "z", 0, ROLE_MEMBER);
    add_node(m, "n3", "m\033[31m", -1, ROLE_SUSPECT);
    add_epoch(m, 1, CAUSE_START, 100000, 50000);
    add_epoch(m, 2, CAUSE_NODE_LOST, 25000, 0);
    add(&m->ledger, &schema_job, &train);
    epochs_compute(&m->ledger, m->now);
}

static void done(struct watch_model *m)
{
    record_list_done(&m->jobs);
    record_list_done(&m->status);
    record_list_done(&m->ledger);
}

/* Stores a line of the screen as text without trailing blanks. */
static void read_line(const struct watch_screen *s, int y, char *ret, size_t cap)
{
    size_t n = 0;
    size_t last = 0;
    for (int x = 0; x < s->width; x++) {
        const struct watch_cell *cell = &s->cells[(size_t)y * (size_t)s->width + (size_t)x];
        n += (size_t)snprintf(ret + n, n < cap ? cap - n : 0, "%s", cell->text);
        last = cell->text[0] != ' ' ? n : last;
    }
    ret[last < cap ? last : cap - 1] = '\0';
}

/* Lines of the screen as drawn last. */
static char lines[64][512];

static void draw(const struct watch_model *m, int width, int height)
{
    struct watch_screen s;
    assert_int_equal(watch_screen_init(&s, width, height), 0);
    watch_draw(m, &s);
    for (int y = 0; y < height && y < 64; y++) {
        read_line(&s, y, lines[y], sizeof(lines[y]));
    }
    watch_screen_done(&s);
}

static int line_of(const char *begin, int height)
{
    for (int y = 0; y < height; y++) {
        if (strncmp(lines[y], begin, strlen(begin)) == 0) {
            return y;
        }
    }
    return -1;
}

TEST(watch, screen_of_80_by_24_shows_jobs_epochs_and_nodes)
{
    struct watch_model m;
    make(&m);
    draw(&m, 80, 24);
    assert_true(strncmp(lines[0], " tfe-ctl watch  [::1]:5556", 26) == 0);
    assert_int_equal(
        line_of("train                    running         1       2   2 1:3    one mo", 24), 2);
    assert_int_equal(line_of("old                      failed", 24), 3);
    assert_int_equal(line_of("train running for 1m05s: one more node may join, up to 5.0s", 24), 5);
    /* Epoch 1 for half of the time, no epoch for a quarter, epoch 2 for a quarter. */
    assert_string_equal(lines[6], "epochs  S==================================="
                                  ".................L==================");
    assert_int_equal(line_of("    0 z                       member     10.0.0.5:4711", 24), 9);
    assert_int_equal(line_of("    1 a                       member     10.0.0.5:4711", 24), 10);
    assert_int_equal(line_of("    - m\\u001b[31m             suspect    10.0.0.5:4711", 24), 11);
    assert_non_null(strstr(lines[22], "epoch 2, 2 nodes: node_lost, b; stood still for 25s"));
    assert_true(strncmp(lines[23], " q quit", 7) == 0);
    done(&m);
}

TEST(watch, any_screen_size_is_drawn)
{
    struct watch_model m;
    make(&m);
    m.curves[0] = (struct watch_curve){.name = "steps/s", .v = {1, 2, 3}, .n = 3};
    for (int width = 1; width < 200; width += 7) {
        for (int height = 1; height < 60; height += 3) {
            m.detail = width % 2;
            draw(&m, width, height);
        }
    }
    done(&m);
}

TEST(watch, keys_select_nodes_in_the_displayed_order)
{
    struct watch_model m;
    make(&m);
    watch_choose_node(&m, 0);
    assert_string_equal(m.node.text, "n1");
    watch_choose_node(&m, 1);
    assert_string_equal(m.node.text, "n2");
    watch_choose_node(&m, 10);
    assert_string_equal(m.node.text, "n3");
    m.sort = WATCH_BY_NAME;
    draw(&m, 80, 24);
    assert_true(line_of("    1 a ", 24) < line_of("    - m", 24));
    assert_true(line_of("    - m", 24) < line_of("    0 z", 24));
    watch_choose_node(&m, 1);
    assert_string_equal(m.node.text, "n1");
    watch_choose_job(&m, 1);
    assert_string_equal(m.job.text, "old");
    watch_choose_job(&m, 1);
    assert_string_equal(m.job.text, "train");
    watch_choose_job(&m, -1);
    assert_string_equal(m.job.text, "old");
    done(&m);
}

TEST(watch, details_of_a_node_contain_every_field_with_a_key)
{
    struct watch_model m;
    make(&m);
    watch_choose_node(&m, 0);
    m.detail = true;
    draw(&m, 80, 40);
    assert_true(line_of("node                n1", 40) > 0);
    assert_true(line_of("state               member", 40) > 0);
    assert_true(line_of("address             10.0.0.5:4711", 40) > 0);
    assert_true(line_of("waits               -", 40) > 0);
    (void)id_set(&m.node, "gone");
    draw(&m, 80, 40);
    assert_true(line_of("this node has left", 40) > 0);
    done(&m);
}

TEST(watch, problems_are_shown_and_orders_are_confirmed)
{
    struct watch_model m;
    make(&m);
    m.trouble = "connection refused";
    m.question = " drain z? (y/n)";
    add(&m.jobs, &schema_health, &(struct msg_health){.component = "store", .message = "no room"});
    draw(&m, 80, 24);
    assert_string_equal(lines[1], "no connection: connection refused");
    assert_string_equal(lines[2], "server: no room");
    assert_string_equal(lines[23], " drain z? (y/n)");
    done(&m);
}

TEST(watch, height_of_a_curve_is_proportional)
{
    struct watch_model m;
    make(&m);
    m.curves[0] = (struct watch_curve){.name = "loss", .v = {4, 2, 0}, .n = 3};
    draw(&m, 80, 24);
    assert_true(strncmp(lines[7], "loss    #-_", 11) == 0);
    assert_non_null(strstr(lines[7], " 0"));
    m.utf8 = true;
    draw(&m, 80, 24);
    assert_non_null(strstr(lines[7], "\xe2\x96\x88\xe2\x96\x84\xe2\x96\x81"));
    done(&m);
}

/* Regression: the distance between the extremes overflows, and the bar's index was out of range. */
TEST(watch, smallest_and_largest_numbers_have_a_height)
{
    struct watch_model m;
    make(&m);
    m.curves[0] =
        (struct watch_curve){.name = "loss", .v = {-DBL_MAX, DBL_MAX, 0, -DBL_MAX}, .n = 4};
    draw(&m, 80, 24);
    assert_true(strncmp(lines[7], "loss    _#-_", 12) == 0);
    m.curves[0] = (struct watch_curve){.name = "loss", .v = {0, DBL_TRUE_MIN}, .n = 2};
    draw(&m, 80, 24);
    assert_true(strncmp(lines[7], "loss    __", 10) == 0);
    done(&m);
}

TEST(watch, run_of_the_selected_job_is_known)
{
    struct watch_model m;
    make(&m);
    assert_int_equal(watch_run(&m), 1);
    (void)id_set(&m.job, "gone");
    assert_int_equal(watch_run(&m), 0);
    done(&m);
}

TEST(progress, bar_is_shown_if_the_total_is_known)
{
    char line[PROGRESS_LINE_MAX];
    struct progress p = {.state = "running", .epoch = 3, .step = 250, .total = 1000, .per_s = 12.5};
    progress_line(&p, 60, false, line);
    assert_string_equal(line, "running, epoch 3  [#####...............]  250/1000 steps  12");
    progress_line(&p, 100, false, line);
    assert_non_null(strstr(line, "250/1000 steps  12.5/s  1m00s left"));
    p.total = -1;
    progress_line(&p, 80, false, line);
    assert_string_equal(line, "running, epoch 3  step 250  12.5/s  ");
    p = (struct progress){
        .state = "waiting", .waits = "2 more nodes", .step = -1, .total = -1, .per_s = -1};
    progress_line(&p, 80, true, line);
    assert_string_equal(line, "waiting, epoch 0  2 more nodes");
}
