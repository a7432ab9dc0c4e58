/* server/ctl/cmd_logs.c: tfe-ctl logs: shows the output of a job's trainers, from all machines. */
#include "server/ctl/cmd_logs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/heap.h"
#include "common/cli/option_table.h"
#include "common/cli/stdio.h"
#include "common/records/json_text.h"
#include "common/records/schemas.h"
#include "common/text/escape.h"
#include "server/ctl/request.h"
#include "server/ctl/terminal.h"
#include "server/ctl/verb.h"

#define FIELD(name) offsetof(struct ctl_settings, name)
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* A node, and when its agent read the last line that has arrived: if a connection is lost, the
 * next one continues from there. */
struct received {
    struct tfe_id node;
    struct tfe_wall last;
};

struct logs {
    const struct ctl_settings *settings;
    struct tfe_msg message;
    bool has_colour;
    bool resumes;            /* the connection was lost, and some lines are sent again */
    bool has_noted_times;    /* the note that lines from files have no times was printed */
    uint64_t epoch;          /* epoch that was printed last */
    struct record_list rows; /* lines, collected until all have arrived and can be sorted */
    bool sorts;
    struct received *received;
    size_t n_received, cap_received;
    bool (*is_over)(void *ctx); /* returns true if the job is over; NULL if not used */
    void *ctx;
    bool is_quiet; /* no line has arrived since is_over returned true */
};

/* --- options --- */

static int parse_lines(void *field, const char *value, struct tfe_reason *reason)
{
    uint64_t n;
    uint32_t lines = MSG_UNSET;
    const char *at = value;
    if (strcmp(value, "all") != 0) {
        if (!options_digits(&at, MSG_UNSET - 1, &n) || *at != '\0') {
            reason_set(reason, "\"%s\" is neither a number of lines nor \"all\"", value);
            return TFE_EINVAL;
        }
        lines = (uint32_t)n;
    }
    memcpy(field, &lines, sizeof(lines));
    return 0;
}

static int parse_epoch(void *field, const char *value, struct tfe_reason *reason)
{
    uint64_t epoch;
    const char *at = value;
    if (!options_digits(&at, MSG_NUMBER_MAX, &epoch) || *at != '\0' || epoch == 0) {
        reason_set(reason, "\"%s\" is not an epoch number", value);
        return TFE_EINVAL;
    }
    memcpy(field, &epoch, sizeof(epoch));
    return 0;
}

/* Parses "10m", or a time of today or of a date, local or UTC. */
static int parse_since(void *field, const char *value, struct tfe_reason *reason)
{
    static const char *const formats[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
                                          "%Y-%m-%dT%H:%M",    "%Y-%m-%d %H:%M",
                                          "%H:%M:%S",          "%H:%M"};
    struct tfe_wall since = {0};
    uint32_t ago;
    if (options_duration(value, &ago) == 0) {
        since.ms = clock_wall().ms - ago;
    }
    for (size_t i = 0; since.ms == 0 && i < COUNT(formats); i++) {
        time_t now = time(NULL);
        struct tm tm;
        bool has_date = formats[i][1] == 'Y';
        if (!localtime_r(&now, &tm)) {
            break;
        }
        tm.tm_sec = 0;
        tm.tm_isdst = -1;
        const char *end = strptime(value, formats[i], &tm);
        bool is_utc = end && has_date && *end == 'Z';
        if (end && end[is_utc] == '\0') {
            since.ms = (int64_t)(is_utc ? timegm(&tm) : mktime(&tm)) * 1000;
        }
    }
    if (since.ms <= 0) {
        reason_set(reason, "\"%s\" is not a time: 10m, 14:30 or 2026-01-31T14:30:00Z", value);
        return TFE_EINVAL;
    }
    memcpy(field, &since, sizeof(since));
    return 0;
}

/* --- output for people --- */

#define PLAIN "\033[0m"
#define FAINT "\033[2m"

static const char *colour_of(const struct logs *l, uint32_t rank)
{
    static const char *const colours[] = {"\033[36m", "\033[32m", "\033[33m",
                                          "\033[35m", "\033[34m", "\033[31m"};
    return l->has_colour ? colours[rank % COUNT(colours)] : "";
}

/* Prints "14:30:05.123", or blanks of the same width if the time is unknown. */
static void put_time(struct tfe_wall at)
{
    time_t seconds = (time_t)(at.ms / 1000);
    struct tm tm;
    char text[16];
    if (at.ms > 0 && localtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%H:%M:%S", &tm)) {
        (void)printf("%s.%03d ", text, (int)(at.ms % 1000));
    } else {
        (void)printf("%-12s ", "-");
    }
}

static void put_escaped(const char *text, size_t n)
{
    char buf[ESCAPE_LINE_MAX(MSG_LOG_TEXT_MAX)];
    n = n < MSG_LOG_TEXT_MAX ? n : MSG_LOG_TEXT_MAX;
    (void)fwrite(buf, 1, escape_line(text, n, buf), stdout);
}

static const char *name_of(const struct msg_log_lines *row, char buf[RECORD_TEXT_MAX])
{
    return escape_text(row->name[0] != '\0' ? row->name : row->node, buf, RECORD_TEXT_MAX);
}

static void put_lines(const struct logs *l, const struct msg_log_lines *row)
{
    const char *colour = colour_of(l, row->rank);
    const char *end = row->text + strlen(row->text);
    for (const char *line = row->text; line <= end;) {
        const char *newline = strchr(line, '\n');
        const char *stop = newline ? newline : end;
        (void)fputs(l->has_colour ? FAINT : "", stdout);
        put_time(row->at);
        (void)printf("%s%s[%u%s]%s ", l->has_colour ? PLAIN : "", colour, (unsigned)row->rank,
                     row->stream == STREAM_STDERR ? " err" : "", l->has_colour ? PLAIN : "");
        put_escaped(line, (size_t)(stop - line));
        (void)putchar('\n');
        line = stop + 1;
    }
}

/* Prints a note that files contain no times: of a file with later changes, some lines may be
 * older. */
static void note_missing_times(struct logs *l, const struct msg_log_lines *row)
{
    if (l->settings->since.ms > 0 && row->at.ms <= 0 && row->text[0] != '\0' &&
        !l->has_noted_times) {
        l->has_noted_times = true;
        (void)fprintf(stderr, "tfe-ctl: lines without a time come from log files: some may be "
                              "older than --since\n");
    }
}

static void put_row(struct logs *l, const struct msg_log_lines *row)
{
    char buf[RECORD_TEXT_MAX];
    const char *faint = l->has_colour ? FAINT : "";
    const char *plain = l->has_colour ? PLAIN : "";
    note_missing_times(l, row);
    if (l->settings->json) {
        if (verb_print_json(record_json(&schema_log_lines, row)) != 0) {
            (void)fprintf(stderr, "tfe-ctl: out of memory, a line is not shown\n");
        }
        return;
    }
    if (row->silent) {
        (void)fprintf(stderr, "tfe-ctl: %s does not answer\n", name_of(row, buf));
        return;
    }
    if (row->epoch > l->epoch) {
        (void)printf("%s--- epoch %llu%s\n", faint, (unsigned long long)row->epoch, plain);
        l->epoch = row->epoch;
    }
    if (row->lost > 0) {
        (void)printf("%s--- %llu lines of %s are missing here%s\n", faint,
                     (unsigned long long)row->lost, name_of(row, buf), plain);
    }
    if (row->tail) {
        (void)printf("%s--- %s is not connected; last output of its rank %u in epoch %llu%s\n",
                     faint, name_of(row, buf), (unsigned)row->rank, (unsigned long long)row->epoch,
                     plain);
    }
    if (row->text[0] != '\0' || !(row->lost > 0 || row->tail)) { /* an empty line is a line, too */
        put_lines(l, row);
    }
}

/* --- responses --- */

/* Returns NULL if out of memory; then lines may be shown twice after a lost connection. */
static struct received *received_of(struct logs *l, const char *node)
{
    for (size_t i = 0; i < l->n_received; i++) {
        if (strcmp(l->received[i].node.text, node) == 0) {
            return &l->received[i];
        }
    }
    if (mem_reserve(&heap_mem, &l->received, &l->cap_received, l->n_received + 1,
                    sizeof(*l->received)) != 0) {
        return NULL;
    }
    struct received *received = &l->received[l->n_received++];
    *received = (struct received){.last = {0}};
    (void)id_set(&received->node, node); /* the codec has validated the id */
    return received;
}

static bool on_row(void *ctx, const struct tfe_msg *msg)
{
    struct logs *l = ctx;
    const struct msg_log_lines *row = &msg->u.log_lines;
    l->is_quiet = false;
    struct received *received = received_of(l, row->node);
    if (received && l->resumes && row->at.ms > 0 && row->at.ms <= received->last.ms) {
        return true;
    }
    if (received && row->at.ms > received->last.ms) {
        received->last = row->at;
    }
    if (l->sorts) {
        return record_list_add(&l->rows, &schema_log_lines, row) == 0;
    }
    put_row(l, row);
    return fflush(stdout) == 0; /* the reader has ended, or the disk is full */
}

/* The next connection asks for lines after the last one of each node; if nothing was printed yet
 * because lines are collected, it asks for everything again. */
static void on_lost(void *ctx)
{
    struct logs *l = ctx;
    struct tfe_wall since = l->settings->since;
    if (l->sorts) {
        record_list_done(&l->rows);
        l->n_received = 0;
        return;
    }
    for (size_t i = 0; i < l->n_received; i++) {
        since = i == 0 || l->received[i].last.ms < since.ms ? l->received[i].last : since;
    }
    l->resumes = l->n_received > 0;
    if (l->resumes) {
        l->message.u.logs.lines = MSG_UNSET;
        l->message.u.logs.since = since;
    }
}

static int by_time(const void *va, const void *vb)
{
    const struct record *a = va;
    const struct record *b = vb;
    int64_t ta = ((const struct msg_log_lines *)a->at)->at.ms;
    int64_t tb = ((const struct msg_log_lines *)b->at)->at.ms;
    return ta != tb ? (ta < tb ? -1 : 1) : 0;
}

/* Rows with equal times must keep their order; glibc's qsort() is stable only while it has memory,
 * others never are. */
static void sort_rows(struct record_list *rows)
{
    if (rows->n > 0) {
        qsort(rows->v, rows->n, sizeof(*rows->v), by_time);
    }
}

/* Lines printed before the end of a job may arrive after its end was reported: the output is
 * complete once no more lines arrive. */
static bool should_continue(void *ctx)
{
    struct logs *l = ctx;
    const bool was_quiet = l->is_quiet;
    l->is_quiet = l->is_over(l->ctx);
    return !(was_quiet && l->is_quiet);
}

/* Cuts text to its last n lines. Returns the number of lines that are left. */
static uint32_t cut_lines(struct msg_log_lines *row, uint32_t n)
{
    const char *end = row->text + strlen(row->text);
    uint32_t lines = 1;
    for (const char *at = end; at > row->text; at--) {
        if (at[-1] == '\n' && lines++ == n) {
            row->text = at;
            return n;
        }
    }
    return lines;
}

/* Retains the last lines of each stream of a rank, from all nodes and epochs: each agent cuts only
 * its own lines. */
static void keep_last(struct logs *l)
{
    uint32_t n_ranks = 0;
    for (size_t i = 0; i < l->rows.n; i++) {
        const struct msg_log_lines *row = l->rows.v[i].at;
        n_ranks = row->rank >= n_ranks ? row->rank + 1 : n_ranks;
    }
    uint32_t *left = calloc(2 * (size_t)n_ranks + 1, sizeof(*left));
    for (size_t i = 0; left && i < 2 * (size_t)n_ranks; i++) {
        left[i] = l->settings->lines;
    }
    for (size_t i = l->rows.n; left && i-- > 0;) {
        struct msg_log_lines *row = l->rows.v[i].at;
        uint32_t *n = &left[2 * (size_t)row->rank + (row->stream == STREAM_STDERR)];
        if (row->silent) {
            continue;
        }
        if (*n == 0) {
            l->rows.v[i].schema = NULL;
        } else {
            *n -= cut_lines(row, *n);
        }
    }
    free(left);
}

static int show(struct logs *l, const char *job)
{
    const struct ctl_settings *settings = l->settings;
    const struct request_stream stream = {.row = on_row,
                                          .lost = on_lost,
                                          .should_continue = l->is_over ? should_continue : NULL,
                                          .ctx = l};
    l->has_colour = terminal_has_colour();
    l->message =
        (struct tfe_msg){.type = MSG_LOGS,
                         .u.logs = {.job = job,
                                    .has_rank = settings->rank != MSG_UNSET,
                                    .rank = settings->rank != MSG_UNSET ? settings->rank : 0,
                                    .node = settings->node,
                                    .epoch = settings->of_epoch,
                                    .follow = settings->follow,
                                    .lines = settings->lines,
                                    .since = settings->since}};
    /* A whole file may be larger than memory. */
    l->sorts = !settings->follow && settings->lines != MSG_UNSET;
    int status = request_stream(settings, &l->message, &stream);
    sort_rows(&l->rows);
    keep_last(l);
    for (size_t i = 0; i < l->rows.n; i++) {
        if (l->rows.v[i].schema) {
            put_row(l, l->rows.v[i].at);
        }
    }
    if (status == EXIT_SUCCESS && l->sorts && l->rows.n == 0) {
        stdio_print_message("tfe-ctl",
                            "no output: the trainers have printed nothing, or their agents have "
                            "ended (--log-dir of tfe-agent keeps output in files on the nodes)");
    }
    record_list_done(&l->rows);
    free(l->received);
    return status;
}

static int run(const struct ctl_verb *verb, const struct ctl_settings *settings, const char *job)
{
    struct logs l = {.settings = settings};
    (void)verb;
    return show(&l, job);
}

int logs_follow(const struct ctl_settings *settings, const char *job, bool (*is_over)(void *ctx),
                void *ctx)
{
    struct ctl_settings own = *settings;
    struct logs l = {.settings = &own, .is_over = is_over, .ctx = ctx};
    own.follow = true;
    own.lines = MSG_UNSET;
    own.rank = MSG_UNSET;
    return show(&l, job);
}

#define RANKS_MAX (MSG_NODES_MAX * MSG_NPROC_MAX)

static const struct option_spec options[] = {
    NUMBER("rank", rank, "R", 0, RANKS_MAX - 1, NULL, "show only this rank (default: all ranks)"),
    TEXT("node", node, "NODE", NULL, "show only this node, by id or label"),
    PARSE_FIELD("epoch", of_epoch, parse_epoch, "E", NULL,
                "show only this epoch (default: the newest, and output that agents still buffer)"),
    OPTION_ROW(OPTION_FLAG, "follow", NULL, NULL, "continue with new output", .letter = 'f',
               .offset = FIELD(follow)),
    OPTION_ROW(OPTION_PARSE, "lines", "LINES", "100",
               "number of lines to start with, per stream of a rank, or \"all\"", .letter = 'n',
               .parse = parse_lines, .offset = FIELD(lines)),
    PARSE_FIELD("since", since, parse_since, "TIME", NULL,
                "show only later output: 10m (ago), 14:30 or 2026-01-31T14:30:00Z"),
};

const struct ctl_verb ctl_verb_logs = {
    .name = "logs",
    .operands = "[JOB]",
    .about = "show the output of a job's trainers from all machines",
    .options = options,
    .n_options = COUNT(options),
    .finds_job = true,
    .operand = CTL_JOB,
    .operation = OPERATION_LOGS,
    .run = run,
};
