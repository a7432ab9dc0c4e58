/* server/ctl/epochs_print.c: a ledger as a table for people, as JSON and as CSV. */
#include <stdlib.h>
#include <time.h>

#include "common/base/json.h"
#include "common/net/heap.h"
#include "server/ctl/epochs.h"
#include "server/ctl/table.h"

/* "0.4s", "12s", "3m05s", "2h14m", "3d05h"; "-" if it is not known. */
static const char *duration(int64_t ms, char ret[32])
{
    int64_t s = ms / 1000;
    if (ms < 0) {
        (void)snprintf(ret, 32, "-");
    } else if (ms < 10000) {
        (void)snprintf(ret, 32, "%lld.%llds", (long long)s, (long long)(ms % 1000 / 100));
    } else if (s < 60) {
        (void)snprintf(ret, 32, "%llds", (long long)s);
    } else if (s < 3600) {
        (void)snprintf(ret, 32, "%lldm%02llds", (long long)(s / 60), (long long)(s % 60));
    } else if (s < 86400) {
        (void)snprintf(ret, 32, "%lldh%02lldm", (long long)(s / 3600), (long long)(s / 60 % 60));
    } else {
        (void)snprintf(ret, 32, "%lldd%02lldh", (long long)(s / 86400), (long long)(s / 3600 % 24));
    }
    return ret;
}

/* In the local time of whoever asks. */
static const char *moment(int64_t ms, char ret[32])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    if (ms <= 0 || localtime_r(&seconds, &tm) == NULL ||
        strftime(ret, 32, "%Y-%m-%d %H:%M:%S", &tm) == 0) {
        (void)snprintf(ret, 32, "-");
    }
    return ret;
}

static const char *steps(bool known, uint64_t n, char ret[32])
{
    (void)snprintf(ret, 32, known ? "%llu" : "-", (unsigned long long)n);
    return ret;
}

static int add_row(struct table *t, const struct epochs_row *r)
{
    char cell[32];
    char cause[320];
    (void)snprintf(cause, sizeof(cause), r->row.blamed[0] != '\0' ? "%s (%s)" : "%s",
                   msg_cause_name(r->row.cause), r->row.blamed);
    (void)snprintf(cell, sizeof(cell), "%llu", (unsigned long long)r->row.epoch);
    int err = table_add(t, cell);
    if (err == 0) {
        err = table_add(t, moment(r->began, cell));
    }
    if (err == 0) {
        (void)snprintf(cell, sizeof(cell), "%u", (unsigned)r->row.members);
        err = table_add(t, cell);
    }
    if (err == 0) {
        err = table_add(t, cause);
    }
    if (err == 0) {
        err = table_add(t, duration(r->standstill, cell));
    }
    if (err == 0) {
        err = table_add(t, duration(r->running, cell));
    }
    if (err == 0) {
        err = table_add(t, steps(r->row.has_saved, r->row.saved_step, cell));
    }
    return err != 0 ? err : table_add(t, steps(r->row.has_lost, r->row.lost_steps, cell));
}

static void print_total(const struct epochs_total *total)
{
    char text[32];
    (void)printf("total: running %s", duration(total->running, text));
    (void)printf(", standstill %s", duration(total->standstill_all, text));
    const char *before = " (";
    for (unsigned i = 0; i < EPOCHS_CAUSES; i++) {
        if (total->standstill[i] > 0) {
            (void)printf("%s%s %s", before, msg_cause_name((enum tfe_cause)i),
                         duration(total->standstill[i], text));
            before = ", ";
        }
    }
    (void)printf("%s", before[0] == ',' ? ")" : "");
    if (total->has_lost) {
        (void)printf(", lost steps %llu", (unsigned long long)total->lost_steps);
    }
    if (total->useful >= 0) {
        (void)printf(", useful %.1f %%", total->useful);
    }
    (void)putchar('\n');
}

int epochs_print_table(const struct epochs *e, const char *job)
{
    static const char *const heads[] = {"EPOCH",      "BEGAN",   "NODES", "CAUSE",
                                        "STANDSTILL", "RUNNING", "SAVED", "LOST"};
    struct table t = {.n_columns = sizeof(heads) / sizeof(heads[0])};
    struct epochs_total total;
    if (e->n == 0) {
        (void)printf("job %s has had no epoch yet\n", job);
        return 0;
    }
    int err = 0;
    for (size_t i = 0; err == 0 && i < t.n_columns; i++) {
        err = table_add(&t, heads[i]);
    }
    for (size_t i = 0; err == 0 && i < e->n; i++) {
        err = add_row(&t, &e->rows[i]);
    }
    if (err == 0) {
        table_print(&t, 0, stdout);
        epochs_sum(e, &total);
        print_total(&total);
    }
    table_done(&t);
    return err;
}

/* Numbers below zero are what is not known. */
static void write_ms(struct json *j, const char *key, int64_t ms)
{
    if (ms < 0) {
        json_add_null(j, key);
    } else {
        json_i64(j, key, ms);
    }
}

static void write_row(struct json *j, const struct epochs_row *r)
{
    json_begin_object(j, NULL);
    json_u64(j, "run", r->row.run);
    json_u64(j, "epoch", r->row.epoch);
    json_text(j, "cause", msg_cause_name(r->row.cause));
    json_text(j, "blamed", r->row.blamed[0] != '\0' ? r->row.blamed : NULL);
    json_bool(j, "planned", r->row.planned);
    json_u64(j, "nodes", r->row.members);
#define WRITE_TIME(NAME, name)                                                                     \
    write_ms(j, #name "_ms", r->row.at[EPOCH_##NAME].ms != 0 ? r->row.at[EPOCH_##NAME].ms : -1);
    TFE_EPOCH_TIMES(WRITE_TIME)
#undef WRITE_TIME
    write_ms(j, "standstill_ms", r->standstill);
    write_ms(j, "running_ms", r->running);
    if (r->row.has_saved) {
        json_u64(j, "saved_step", r->row.saved_step);
    } else {
        json_add_null(j, "saved_step");
    }
    if (r->row.has_lost) {
        json_u64(j, "lost_steps", r->row.lost_steps);
    } else {
        json_add_null(j, "lost_steps");
    }
    json_bool(j, "over", r->row.over);
    json_end_object(j);
}

static void write_total(struct json *j, const struct epochs_total *total)
{
    json_begin_object(j, "total");
    json_i64(j, "running_ms", total->running);
    json_i64(j, "standstill_ms", total->standstill_all);
    json_begin_object(j, "standstill_ms_by_cause");
    for (unsigned i = 0; i < EPOCHS_CAUSES; i++) {
        if (total->standstill[i] > 0) {
            json_i64(j, msg_cause_name((enum tfe_cause)i), total->standstill[i]);
        }
    }
    json_end_object(j);
    if (total->has_lost) {
        json_u64(j, "lost_steps", total->lost_steps);
    } else {
        json_add_null(j, "lost_steps");
    }
    /* In tenths of a percent: all numbers of ours are whole. */
    write_ms(j, "useful_permille", total->useful < 0 ? -1 : (int64_t)(total->useful * 10 + 0.5));
    json_end_object(j);
}

int epochs_print_json(const struct epochs *e, const char *job)
{
    struct json j;
    struct epochs_total total;
    const char *text;
    size_t n;
    epochs_sum(e, &total);
    json_init(&j, &heap_mem);
    json_begin_object(&j, NULL);
    json_text(&j, "job", job);
    json_begin_array(&j, "epochs");
    for (size_t i = 0; i < e->n; i++) {
        write_row(&j, &e->rows[i]);
    }
    json_end_array(&j);
    write_total(&j, &total);
    json_end_object(&j);
    int err = json_finish(&j, &text, &n);
    if (err == 0) {
        (void)fwrite(text, 1, n, stdout);
        (void)putchar('\n');
    }
    json_done(&j);
    return err;
}

/* RFC 4180: in quotes, which are doubled inside. A leading character that a spreadsheet would take
 * for a formula gets an apostrophe in front: labels come from machines that we do not know. */
static void print_quoted(const char *text)
{
    (void)printf(text[0] == '=' || text[0] == '+' || text[0] == '-' || text[0] == '@' ? "\"'"
                                                                                      : "\"");
    for (const char *c = text; *c != '\0'; c++) {
        (void)printf(*c == '"' ? "\"\"" : "%c", *c);
    }
    (void)putchar('"');
}

static void print_number(bool known, int64_t n)
{
    if (known) {
        (void)printf(",%lld", (long long)n);
    } else {
        (void)putchar(',');
    }
}

void epochs_print_csv(const struct epochs *e)
{
#define HEAD_TIME(NAME, name) #name "_ms,"
    (void)puts("run,epoch,nodes,cause,blamed,planned," TFE_EPOCH_TIMES(
        HEAD_TIME) "standstill_ms,running_ms,saved_step,lost_steps,over");
#undef HEAD_TIME
    for (size_t i = 0; i < e->n; i++) {
        const struct epochs_row *r = &e->rows[i];
        (void)printf("%u,%llu,%u,%s,", (unsigned)r->row.run, (unsigned long long)r->row.epoch,
                     (unsigned)r->row.members, msg_cause_name(r->row.cause));
        print_quoted(r->row.blamed);
        (void)printf(",%d", r->row.planned);
        for (int k = 0; k < EPOCH__TIMES; k++) {
            print_number(r->row.at[k].ms != 0, r->row.at[k].ms);
        }
        print_number(r->standstill >= 0, r->standstill);
        print_number(r->running >= 0, r->running);
        print_number(r->row.has_saved, (int64_t)r->row.saved_step);
        print_number(r->row.has_lost, (int64_t)r->row.lost_steps);
        (void)printf(",%d\n", r->row.over);
    }
}
