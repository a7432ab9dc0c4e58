/* server/ctl/watch_view.c: draws the model of tfe-ctl watch on a screen. */
#include "server/ctl/watch_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/records/epoch_summary.h"
#include "common/records/schemas.h"
#include "common/records/text_table.h"
#include "server/ctl/progress_line.h"

/* Minimum number of event lines below the nodes of the job. */
#define EVENTS_LEAST 3

/* --- rows --- */

static const struct msg_status_job *job_at(const struct record_list *rows, size_t i)
{
    return rows->v[i].schema == &schema_job ? rows->v[i].at : NULL;
}

static const struct msg_status_job *chosen_job(const struct watch_model *m)
{
    for (size_t i = 0; i < m->jobs.n; i++) {
        const struct msg_status_job *job = job_at(&m->jobs, i);
        if (job && strcmp(job->job, m->job.text) == 0) {
            return job;
        }
    }
    return NULL;
}

uint32_t watch_run(const struct watch_model *m)
{
    const struct msg_status_job *job = chosen_job(m);
    return job ? job->run : 0;
}

static int compare_rank(const void *va, const void *vb)
{
    const struct msg_status_node *a = *(const struct msg_status_node *const *)va;
    const struct msg_status_node *b = *(const struct msg_status_node *const *)vb;
    if (a->has_rank != b->has_rank) {
        return a->has_rank ? -1 : 1;
    }
    if (a->has_rank && a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return strcmp(a->name, b->name);
}

static int compare_name(const void *va, const void *vb)
{
    const struct msg_status_node *a = *(const struct msg_status_node *const *)va;
    const struct msg_status_node *b = *(const struct msg_status_node *const *)vb;
    int by_name = strcmp(a->name, b->name);
    return by_name ? by_name : strcmp(a->node, b->node);
}

static int compare_role(const void *va, const void *vb)
{
    const struct msg_status_node *a = *(const struct msg_status_node *const *)va;
    const struct msg_status_node *b = *(const struct msg_status_node *const *)vb;
    return a->role != b->role ? (a->role < b->role ? -1 : 1) : compare_rank(va, vb);
}

/* Returns the sorted nodes of the job, to be freed by the caller. *ret_n is 0 if there are none or
 * memory ran out. */
static const struct msg_status_node **sorted_nodes(const struct watch_model *m, size_t *ret_n)
{
    static int (*const orders[WATCH__SORTS])(const void *,
                                             const void *) = {[WATCH_BY_RANK] = compare_rank,
                                                              [WATCH_BY_NAME] = compare_name,
                                                              [WATCH_BY_ROLE] = compare_role};
    const struct msg_status_node **nodes =
        calloc(m->status.n + 1, sizeof(struct msg_status_node *));
    *ret_n = 0;
    for (size_t i = 0; nodes && i < m->status.n; i++) {
        if (m->status.v[i].schema == &schema_node) {
            nodes[(*ret_n)++] = m->status.v[i].at;
        }
    }
    if (*ret_n > 0) {
        qsort(nodes, *ret_n, sizeof(struct msg_status_node *), orders[m->sort]);
    }
    return nodes;
}

static size_t place_of(const struct msg_status_node *const *nodes, size_t n, const char *node)
{
    size_t i = 0;
    while (i < n && strcmp(nodes[i]->node, node) != 0) {
        i++;
    }
    return i < n ? i : 0;
}

const struct msg_status_node *watch_node(const struct watch_model *m)
{
    for (size_t i = 0; i < m->status.n; i++) {
        const struct msg_status_node *node = m->status.v[i].at;
        if (m->status.v[i].schema == &schema_node && strcmp(node->node, m->node.text) == 0) {
            return node;
        }
    }
    return NULL;
}

void watch_choose_node(struct watch_model *m, int by)
{
    size_t n;
    const struct msg_status_node **nodes = sorted_nodes(m, &n);
    if (n > 0) {
        int64_t at = (int64_t)place_of(nodes, n, m->node.text);
        at = watch_node(m) ? at + by : 0;
        at = at < 0 ? 0 : at >= (int64_t)n ? (int64_t)n - 1 : at;
        (void)id_set(&m->node, nodes[at]->node);
    }
    free(nodes);
}

void watch_choose_job(struct watch_model *m, int by)
{
    int64_t n = 0;
    int64_t at = 0;
    for (size_t i = 0; i < m->jobs.n; i++) {
        const struct msg_status_job *job = job_at(&m->jobs, i);
        if (job) {
            at = strcmp(job->job, m->job.text) == 0 ? n : at;
            n++;
        }
    }
    int64_t to = n > 0 ? (at + by % n + n) % n : 0;
    for (size_t i = 0; i < m->jobs.n; i++) {
        const struct msg_status_job *job = job_at(&m->jobs, i);
        if (job && to-- == 0) {
            (void)id_set(&m->job, job->job);
            return;
        }
    }
}

/* --- parts --- */

static const char *clock_text(struct tfe_wall at, char buf[RECORD_TEXT_MAX])
{
    time_t seconds = (time_t)(at.ms / 1000);
    struct tm tm;
    if (!localtime_r(&seconds, &tm) || strftime(buf, RECORD_TEXT_MAX, "%H:%M:%S", &tm) == 0) {
        buf[0] = '\0';
    }
    return buf;
}

static enum watch_style style_of_state(enum tfe_job_state state)
{
    return state == STATE_RUNNING || state == STATE_SUCCEEDED     ? WATCH_GOOD
           : state == STATE_FAILED                                ? WATCH_BAD
           : state == STATE_CANCELLED || state == STATE_SUSPENDED ? WATCH_FAINT
                                                                  : WATCH_WARN;
}

/* Returns why the job failed or what it waits for, or NULL. */
static const char *reason_of(const struct msg_status_job *job)
{
    return job->reason ? job->reason : job->waits;
}

static enum watch_style style_of_role(enum tfe_node_role role)
{
    return role == ROLE_MEMBER                              ? WATCH_GOOD
           : role == ROLE_SUSPECT                           ? WATCH_BAD
           : role == ROLE_LEAVING || role == ROLE_PREPARING ? WATCH_WARN
                                                            : WATCH_PLAIN;
}

static void draw_top(const struct watch_model *m, struct watch_screen *s)
{
    char buf[RECORD_TEXT_MAX];
    char line[2 * RECORD_TEXT_MAX];
    (void)snprintf(line, sizeof(line), " tfe-ctl watch  %.200s", m->server);
    (void)watch_put(s, 0, 0, s->width, WATCH_BAR, line);
    (void)watch_put(s, 0, s->width - 10, 9, WATCH_BAR, clock_text(m->now, buf));
}

static void draw_last(const struct watch_model *m, struct watch_screen *s)
{
    static const char *const sorts[WATCH__SORTS] = {"rank", "name", "role"};
    char line[RECORD_TEXT_MAX];
    (void)snprintf(line, sizeof(line),
                   " q quit  tab job  %s node  enter detail  d drain  s sort (%s)",
                   m->utf8 ? "\xe2\x86\x91\xe2\x86\x93" : "j/k", sorts[m->sort]);
    (void)watch_put(s, s->height - 1, 0, s->width, m->question ? WATCH_CHOSEN : WATCH_BAR,
                    m->question  ? m->question
                    : m->message ? m->message
                                 : line);
}

/* Draws the problems of the server; returns the next line. */
static int draw_health(const struct watch_model *m, struct watch_screen *s, int y)
{
    char line[MSG_SENTENCE_MAX + 64];
    if (m->trouble) {
        (void)snprintf(line, sizeof(line), "no connection: %s", m->trouble);
        (void)watch_put(s, y++, 0, s->width, WATCH_BAD, line);
    }
    for (size_t i = 0; i < m->jobs.n; i++) {
        const struct msg_health *health = m->jobs.v[i].at;
        if (m->jobs.v[i].schema == &schema_health) {
            (void)snprintf(line, sizeof(line), "server: %s", health->message);
            (void)watch_put(s, y++, 0, s->width, WATCH_BAD, line);
        }
    }
    return y;
}

/* Draws up to `max` jobs around the selected one; returns the next line. */
static int draw_jobs(const struct watch_model *m, struct watch_screen *s, int y, int max)
{
    int n = 0;
    int at = 0;
    char line[RECORD_TEXT_MAX];
    for (size_t i = 0; i < m->jobs.n; i++) {
        const struct msg_status_job *job = job_at(&m->jobs, i);
        at = job && strcmp(job->job, m->job.text) == 0 ? n : at;
        n += job != NULL;
    }
    int first = at >= max ? at - max + 1 : 0;
    (void)snprintf(line, sizeof(line), "%-24s %-11s %5s %7s %9s  REASON", "JOB", "STATE", "RUN",
                   "EPOCH", "NODES");
    (void)watch_put(s, y++, 0, s->width, WATCH_BOLD, line);
    if (n == 0) {
        (void)watch_put(s, y++, 0, s->width, WATCH_FAINT, m->has_answer ? "no jobs" : "…");
    }
    int seen = 0;
    for (size_t i = 0; i < m->jobs.n; i++) {
        const struct msg_status_job *job = job_at(&m->jobs, i);
        if (!job || seen++ < first || seen > first + max) {
            continue;
        }
        enum watch_style style = seen - 1 == at && n > 1 ? WATCH_CHOSEN : WATCH_PLAIN;
        int x = watch_put(s, y, 0, 25, style, job->job);
        x = watch_put(s, y, x, 12, style == WATCH_PLAIN ? style_of_state(job->state) : style,
                      msg_job_state_name(job->state));
        (void)snprintf(line, sizeof(line), "%5u %7llu %3u %u:%u", (unsigned)job->run,
                       (unsigned long long)job->epoch, (unsigned)job->members,
                       (unsigned)job->min_nodes, (unsigned)job->max_nodes);
        x = watch_put(s, y, x, 25, style, line);
        (void)watch_put(s, y++, x, s->width - x, style, reason_of(job) ? reason_of(job) : "");
    }
    return y;
}

/* --- the selected job --- */

static int draw_job(const struct watch_model *m, struct watch_screen *s, int y)
{
    const struct msg_status_job *job = chosen_job(m);
    char span[RECORD_TEXT_MAX];
    char line[MSG_SENTENCE_MAX + 2 * RECORD_TEXT_MAX];
    if (!job) {
        return y;
    }
    (void)snprintf(line, sizeof(line), "%s", job->job);
    int x = watch_put(s, y, 0, (int)strlen(line) + 1, WATCH_BOLD, line);
    const char *reason = reason_of(job);
    const int64_t since = job->since.ms > 0 ? m->now.ms - job->since.ms : -1;
    (void)snprintf(line, sizeof(line), "%s for %s%s%s%s", msg_job_state_name(job->state),
                   text_table_duration(since, span), reason ? ": " : "", reason ? reason : "",
                   job->waits && job->waits_ms > 0 ? ", up to " : "");
    if (job->waits && job->waits_ms > 0) {
        size_t n = strlen(line);
        (void)snprintf(line + n, sizeof(line) - n, "%s", text_table_duration(job->waits_ms, span));
    }
    if (job->slow) {
        size_t n = strlen(line);
        (void)snprintf(line + n, sizeof(line) - n, "; all wait for %.120s, %.1f times as slow",
                       job->slow, job->straggler_times_milli / 1000.0);
    }
    (void)watch_put(s, y++, x, s->width - x, style_of_state(job->state), line);
    if (job->has_step) {
        struct progress p = progress_of(job);
        char steps[PROGRESS_LINE_MAX];
        p.waits = NULL;
        progress_line(&p, s->width, m->utf8, steps);
        (void)watch_put(s, y++, 0, s->width, WATCH_PLAIN, steps);
    }
    return y;
}

/* Returns one letter for each cause, for screens without colours. */
static char letter_of(enum tfe_cause cause)
{
    static const char letters[] = "?SLFJDPRVIUA";
    return (size_t)cause < sizeof(letters) - 1 ? letters[cause] : '?';
}

static enum watch_style style_of_cause(enum tfe_cause cause)
{
    return cause == CAUSE_NODE_LOST || cause == CAUSE_TRAINER_FAILED ? WATCH_BAD
           : cause == CAUSE_START                                    ? WATCH_PLAIN
           : cause == CAUSE_JOINED || cause == CAUSE_RESIZED         ? WATCH_NEWS
                                                                     : WATCH_WARN;
}

/* Draws a timeline from left to right: the letter of the cause where an epoch began, a line while
 * it trained, dots while nobody trained. */
static int draw_ribbon(const struct watch_model *m, struct watch_screen *s, int y)
{
    const int label = 8;
    const int width = s->width - label;
    int64_t from = 0;
    for (size_t i = 0; i < m->ledger.n && from <= 0; i++) {
        const struct epoch_record *epoch = m->ledger.v[i].at;
        from = m->ledger.v[i].schema == &schema_epoch ? epoch->began : 0;
    }
    if (from <= 0 || m->now.ms <= from || width < 8) {
        return y;
    }
    double per_ms = (double)(width - 1) / (double)(m->now.ms - from);
    (void)watch_put(s, y, 0, label, WATCH_FAINT, "epochs");
    for (int x = 0; x < width; x++) {
        (void)watch_put(s, y, label + x, 1, WATCH_FAINT, m->utf8 ? "\xc2\xb7" : ".");
    }
    for (size_t i = 0; i < m->ledger.n; i++) {
        const struct epoch_record *epoch = m->ledger.v[i].at;
        if (m->ledger.v[i].schema != &schema_epoch || epoch->began <= 0) {
            continue;
        }
        char letter[2] = {letter_of(epoch->row.cause), '\0'};
        int at = (int)((double)(epoch->began - from) * per_ms);
        int64_t ran = epoch->running > 0 ? epoch->running : 0;
        int to = (int)((double)(epoch->began + ran - from) * per_ms);
        for (int x = at + 1; x <= to && x < width; x++) {
            (void)watch_put(s, y, label + x, 1, WATCH_GOOD, m->utf8 ? "\xe2\x94\x81" : "=");
        }
        (void)watch_put(s, y, label + at, 1, style_of_cause(epoch->row.cause), letter);
    }
    return y + 1;
}

/* Draws the newest points, scaled between the minimum and maximum of those shown. */
static int draw_curve(const struct watch_model *m, struct watch_screen *s, int y,
                      const struct watch_curve *curve)
{
    static const char *const bars[] = {"\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83",
                                       "\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86",
                                       "\xe2\x96\x87", "\xe2\x96\x88"};
    static const char *const plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    const int label = 8;
    const int width = s->width - label - 12;
    char value[32];
    if (curve->n == 0 || width < 8) {
        return y;
    }
    size_t first = curve->n > (size_t)width ? curve->n - (size_t)width : 0;
    double low = curve->v[first];
    double high = low;
    for (size_t i = first; i < curve->n; i++) {
        low = curve->v[i] < low ? curve->v[i] : low;
        high = curve->v[i] > high ? curve->v[i] : high;
    }
    (void)watch_put(s, y, 0, label, WATCH_FAINT, curve->name);
    for (size_t i = first; i < curve->n; i++) {
        /* Halves avoid an overflow: the difference of two doubles may be infinite. */
        double part = high > low ? (curve->v[i] / 2 - low / 2) / (high / 2 - low / 2) : 0.5;
        int height =
            part > 0 ? (int)(part * 7.999) : 0; /* two halves of a tiny difference are equal */
        (void)watch_put(s, y, label + (int)(i - first), 1, WATCH_NEWS,
                        m->utf8 ? bars[height] : plain[height]);
    }
    (void)snprintf(value, sizeof(value), "%.4g", curve->v[curve->n - 1]);
    (void)watch_put(s, y, s->width - 11, 11, WATCH_BOLD, value);
    return y + 1;
}

/* --- the nodes of the job --- */

static void draw_node(struct watch_screen *s, int y, const struct msg_status_node *node,
                      bool is_chosen)
{
    char buf[RECORD_TEXT_MAX];
    char line[RECORD_TEXT_MAX];
    enum watch_style style = is_chosen ? WATCH_CHOSEN : WATCH_PLAIN;
    const void *row = node;
    const struct record_field *address = record_find_field(&schema_node, "address", NULL, &row);
    const char *where = address ? record_value(address, row, buf).text : NULL;
    (void)snprintf(line, sizeof(line), "%5s ", "-");
    if (node->has_rank) {
        (void)snprintf(line, sizeof(line), "%5u ", (unsigned)node->rank);
    }
    char role_buf[RECORD_TEXT_MAX];
    const void *role_row = node;
    const struct record_field *role = record_find_field(&schema_node, NULL, "ROLE", &role_row);
    int x = watch_put(s, y, 0, 6, style, line);
    x = watch_put(s, y, x, 23, style, node->name[0] != '\0' ? node->name : node->node);
    x = watch_put(s, y, x, 1, style, "");
    x = watch_put(s, y, x, 11, is_chosen ? style : style_of_role(node->role),
                  role ? record_value(role, role_row, role_buf).text : "-");
    x = watch_put(s, y, x, 22, style, where ? where : "-");
    (void)watch_put(s, y, x, s->width - x, style, node->waits ? node->waits : "");
}

static void draw_nodes(const struct watch_model *m, struct watch_screen *s, int y, int bottom)
{
    size_t n;
    const struct msg_status_node **nodes = sorted_nodes(m, &n);
    char line[RECORD_TEXT_MAX];
    int capacity = bottom - y - 1;
    size_t at = place_of(nodes, n, m->node.text);
    size_t first = capacity > 0 && at >= (size_t)capacity ? at - (size_t)capacity + 1 : 0;
    (void)snprintf(line, sizeof(line), "%5s %-23s %-10s %-21s WAITS FOR", "RANK", "NODE", "ROLE",
                   "ADDRESS");
    (void)watch_put(s, y++, 0, s->width, WATCH_BOLD, line);
    if (n == 0 && y < bottom) {
        (void)watch_put(s, y, 0, s->width, WATCH_FAINT, "no nodes");
    }
    for (size_t i = first; i < n && y < bottom; i++) {
        draw_node(s, y++, nodes[i], strcmp(nodes[i]->node, m->node.text) == 0);
    }
    if (n > first + (size_t)(capacity > 0 ? capacity : 0) && bottom > 0) {
        (void)snprintf(line, sizeof(line), "%zu more", n - first - (size_t)capacity);
        (void)watch_put(s, bottom - 1, s->width - 12, 12, WATCH_FAINT, line);
    }
    free(nodes);
}

/* Formats the value of a field for people. */
static void field_text(const struct record_field *field, const void *row, char ret[RECORD_TEXT_MAX])
{
    char buf[RECORD_TEXT_MAX];
    struct record_value value = record_value(field, row, buf);
    size_t n = 0;
    ret[0] = '\0';
    switch (value.form) {
    case RECORD_NONE:
        (void)snprintf(ret, RECORD_TEXT_MAX, "-");
        return;
    case RECORD_IS_TEXT:
        (void)snprintf(ret, RECORD_TEXT_MAX, "%s", value.text);
        return;
    case RECORD_IS_NUMBER:
        if (field->type == RECORD_TIME) {
            (void)clock_text((struct tfe_wall){value.number}, ret);
        } else {
            (void)snprintf(ret, RECORD_TEXT_MAX, "%lld", (long long)value.number);
        }
        return;
    case RECORD_IS_REAL:
        (void)snprintf(ret, RECORD_TEXT_MAX, "%.4g", value.real);
        return;
    case RECORD_IS_BOOL:
        (void)snprintf(ret, RECORD_TEXT_MAX, "%s", value.number ? "yes" : "no");
        return;
    case RECORD_IS_LIST:
        for (size_t i = 0; i < value.n_list && n + 12 < RECORD_TEXT_MAX; i++) {
            n += (size_t)snprintf(ret + n, RECORD_TEXT_MAX - n, "%s%u", i > 0 ? " " : "",
                                  (unsigned)value.list[i]);
        }
        return;
    }
}

/* Draws all fields of the selected node, in two columns if the screen is wide enough. */
static void draw_detail(const struct watch_model *m, struct watch_screen *s, int y, int bottom)
{
    const struct msg_status_node *node = watch_node(m);
    const int half = s->width >= 100 ? s->width / 2 : s->width;
    const int top = y;
    int x = 0;
    if (!node) {
        (void)watch_put(s, y, 0, s->width, WATCH_FAINT, "this node has left");
        return;
    }
    for (size_t i = 0;; i++) {
        char text[RECORD_TEXT_MAX];
        const void *row = node;
        const struct record_field *field = record_field(&schema_node, i, &row);
        if (!field) {
            return;
        }
        if (!field->key) {
            continue;
        }
        if (y >= bottom) {
            x += half;
            y = top;
        }
        if (x >= s->width) {
            return;
        }
        field_text(field, row, text);
        (void)watch_put(s, y, x, 20, WATCH_FAINT, field->key);
        (void)watch_put(s, y++, x + 20, half - 21, WATCH_PLAIN, text);
    }
}

/* --- events --- */

static enum watch_style style_of_level(enum tfe_event_level level)
{
    return level == EVENT_ERROR ? WATCH_BAD : level == EVENT_WARN ? WATCH_WARN : WATCH_PLAIN;
}

/* Draws the newest events, the last one at the bottom. */
static void draw_events(const struct watch_model *m, struct watch_screen *s, int y, int bottom)
{
    for (size_t i = m->events.n; i-- > 0 && y < bottom;) {
        const struct msg_event_row *event = m->events.v[i].at;
        char buf[RECORD_TEXT_MAX];
        int x = watch_put(s, --bottom, 0, 9, WATCH_FAINT, clock_text(event->at, buf));
        (void)watch_put(s, bottom, x, s->width - x, style_of_level(event->level), event->message);
    }
}

/* Draws the newest epochs of the ledger, if there are no events. */
static void draw_epochs(const struct watch_model *m, struct watch_screen *s, int y, int bottom)
{
    for (size_t i = m->ledger.n; i-- > 0 && y < bottom;) {
        const struct epoch_record *epoch = m->ledger.v[i].at;
        char buf[RECORD_TEXT_MAX];
        char line[2 * RECORD_TEXT_MAX];
        if (m->ledger.v[i].schema != &schema_epoch || epoch->began <= 0) {
            continue;
        }
        int x = watch_put(s, bottom - 1, 0, 9, WATCH_FAINT,
                          clock_text((struct tfe_wall){epoch->began}, buf));
        (void)snprintf(line, sizeof(line), "epoch %llu, %u node%s: %s%s%.120s",
                       (unsigned long long)epoch->row.epoch, (unsigned)epoch->row.members,
                       epoch->row.members == 1 ? "" : "s", msg_cause_name(epoch->row.cause),
                       epoch->row.blamed[0] != '\0' ? ", " : "", epoch->row.blamed);
        if (epoch->standstill >= 100) {
            size_t n = strlen(line);
            (void)snprintf(line + n, sizeof(line) - n, "; stood still for %s",
                           text_table_duration(epoch->standstill, buf));
        }
        (void)watch_put(s, bottom - 1, x, s->width - x, style_of_cause(epoch->row.cause), line);
        bottom--;
    }
}

/* --- the whole screen --- */

void watch_draw(const struct watch_model *m, struct watch_screen *s)
{
    const int bottom = s->height - 1;
    draw_top(m, s);
    int y = draw_health(m, s, 1);
    int jobs_max = s->height / 4 > 1 ? s->height / 4 : 1;
    y = draw_jobs(m, s, y, jobs_max) + 1;
    y = draw_job(m, s, y);
    y = draw_ribbon(m, s, y);
    for (size_t i = 0; i < sizeof(m->curves) / sizeof(m->curves[0]); i++) {
        y = draw_curve(m, s, y, &m->curves[i]);
    }
    y++;
    if (m->detail) {
        draw_detail(m, s, y, bottom);
    } else {
        int events = s->height / 5 > EVENTS_LEAST ? s->height / 5 : EVENTS_LEAST;
        int nodes_end = bottom - events - 1;
        draw_nodes(m, s, y, nodes_end > y + 1 ? nodes_end : bottom);
        if (nodes_end > y + 1) {
            (m->events.n > 0 ? draw_events : draw_epochs)(m, s, nodes_end + 1, bottom);
        }
    }
    draw_last(m, s);
}
