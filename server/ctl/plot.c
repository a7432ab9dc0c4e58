/* server/ctl/plot.c: a job's ledger as a picture, for a report. */
#include "server/ctl/plot.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/shown.h"
#include "common/rows/epochs.h"
#include "common/rows/table.h"

/* In points; the left edge has the epochs' numbers, the right one their causes. */
#define WIDTH 1100.0
#define LEFT 70.0
#define RIGHT 250.0
#define TOP 64.0
#define NODES_HEIGHT 90.0
#define GAP 34.0
#define ROW_MOST 24.0
#define ROW_LEAST 3.0
#define ROWS_HEIGHT 640.0
#define SUMMARY_HEIGHT 130.0
#define FONT 11.0
/* cairo's images have no more; one of so many rows takes 280 MB. */
#define IMAGE_DOTS_MOST 32767.0

struct colour {
    double r, g, b;
};

static const struct colour ink = {0.15, 0.17, 0.20};
static const struct colour faint = {0.80, 0.82, 0.85};
static const struct colour trains = {0.25, 0.62, 0.45};
static const struct colour nodes_colour = {0.55, 0.70, 0.88};

/* What a standstill consists of, between two times of the ledger. */
static const struct {
    enum tfe_epoch_time until;
    const char *name;
    struct colour colour;
} phases[] = {
    {EPOCH_STOPPED, "noticed, until the stop", {0.80, 0.26, 0.24}},
    {EPOCH_GATHERED, "until all were ready", {0.91, 0.51, 0.27}},
    {EPOCH_COMMITTED, "written", {0.96, 0.76, 0.35}},
    {EPOCH_STARTED, "told to start", {0.72, 0.56, 0.78}},
    {EPOCH_LISTENING, "until all listened", {0.55, 0.45, 0.75}},
    {EPOCH_PROGRESSED, "until the first step", {0.45, 0.50, 0.80}},
};
#define N_PHASES (sizeof(phases) / sizeof(phases[0]))

static const struct colour causes[EPOCHS_CAUSES] = {
    [CAUSE_START] = {0.60, 0.60, 0.62},          [CAUSE_NODE_LOST] = {0.80, 0.26, 0.24},
    [CAUSE_TRAINER_FAILED] = {0.62, 0.16, 0.30}, [CAUSE_JOINED] = {0.30, 0.60, 0.80},
    [CAUSE_DRAINED] = {0.91, 0.51, 0.27},        [CAUSE_PREEMPTED] = {0.96, 0.76, 0.35},
    [CAUSE_RESIZED] = {0.45, 0.50, 0.80},        [CAUSE_SERVER_LOST] = {0.55, 0.45, 0.75},
    [CAUSE_INTERRUPTED] = {0.72, 0.56, 0.78},
};

struct plot {
    cairo_t *cr;
    const struct row_list *ledger;
    int64_t from, to; /* ms since 1970 */
    size_t n;         /* epochs */
    uint32_t most;    /* nodes */
    double row;       /* height of an epoch's */
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* --- what there is ---------------------------------------------------------------------------- */

static const struct epoch_row *epoch_at(const struct row_list *ledger, size_t i)
{
    return ledger->v[i].kind == &kind_epoch ? ledger->v[i].at : NULL;
}

/* The first thing that is known of it. */
static int64_t beginning(const struct epoch_row *epoch)
{
    for (unsigned t = 0; t < EPOCH__TIMES; t++) {
        if (epoch->row.at[t].ms > 0) {
            return epoch->row.at[t].ms;
        }
    }
    return -1;
}

static void measure(struct plot *p, struct tfe_wall now)
{
    p->from = INT64_MAX;
    p->to = 0;
    for (size_t i = 0; i < p->ledger->n; i++) {
        const struct epoch_row *epoch = epoch_at(p->ledger, i);
        int64_t begins = epoch ? beginning(epoch) : -1;
        if (begins < 0) {
            continue;
        }
        int64_t ends = epoch->ended > 0 ? epoch->ended : now.ms;
        p->n++;
        p->from = begins < p->from ? begins : p->from;
        p->to = ends > p->to ? ends : p->to;
        p->most = epoch->row.members > p->most ? epoch->row.members : p->most;
    }
    p->to = p->to > p->from ? p->to : p->from + 1;
    p->row = larger(ROW_LEAST, smaller(ROW_MOST, ROWS_HEIGHT / (double)(p->n > 0 ? p->n : 1)));
}

/* --- pieces ----------------------------------------------------------------------------------- */

static void set(struct plot *p, struct colour c)
{
    cairo_set_source_rgb(p->cr, c.r, c.g, c.b);
}

static double x_of(const struct plot *p, int64_t at)
{
    double part = (double)(at - p->from) / (double)(p->to - p->from);
    return LEFT + (WIDTH - LEFT - RIGHT) * smaller(1, larger(0, part));
}

static void box(struct plot *p, struct colour c, double x, double y, double w, double h)
{
    set(p, c);
    cairo_rectangle(p->cr, x, y, w, h);
    cairo_fill(p->cr);
}

static void text(struct plot *p, double x, double y, double size, const char *words)
{
    cairo_set_font_size(p->cr, size);
    cairo_move_to(p->cr, x, y);
    cairo_show_text(p->cr, words);
}

static void text_before(struct plot *p, double x, double y, const char *words)
{
    cairo_text_extents_t extents;
    cairo_set_font_size(p->cr, FONT);
    cairo_text_extents(p->cr, words, &extents);
    text(p, x - extents.x_advance, y, FONT, words);
}

enum clock_form { FORM_DATE, FORM_DAY, FORM_MINUTE, FORM_SECOND };

static const char *clock_of(int64_t ms, enum clock_form how, char room[ROW_ROOM])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm = {0};
    size_t n = 0;
    if (localtime_r(&seconds, &tm)) {
        n = how == FORM_DATE     ? strftime(room, ROW_ROOM, "%Y-%m-%d %H:%M:%S", &tm)
            : how == FORM_DAY    ? strftime(room, ROW_ROOM, "%d %b", &tm)
            : how == FORM_MINUTE ? strftime(room, ROW_ROOM, "%H:%M", &tm)
                                 : strftime(room, ROW_ROOM, "%H:%M:%S", &tm);
    }
    room[n] = '\0';
    return room;
}

/* Vertical lines at whole steps of time, with the time below. */
static void draw_grid(struct plot *p, double top, double bottom)
{
    static const int64_t steps[] = {1,     2,     5,     10,    15,     30,    60,
                                    120,   300,   600,   900,   1800,   3600,  7200,
                                    14400, 21600, 43200, 86400, 172800, 604800};
    const size_t n_steps = sizeof(steps) / sizeof(steps[0]);
    size_t i = 0;
    while (i + 1 < n_steps && (p->to - p->from) / (steps[i] * 1000) > 8) {
        i++;
    }
    int64_t step = steps[i] * 1000;
    char room[ROW_ROOM];
    cairo_set_line_width(p->cr, 0.5);
    int64_t most = 64; /* whatever the clock says */
    for (int64_t at = (p->from + step - 1) / step * step; at <= p->to && most-- > 0; at += step) {
        double x = x_of(p, at);
        set(p, faint);
        cairo_move_to(p->cr, x, top);
        cairo_line_to(p->cr, x, bottom);
        cairo_stroke(p->cr);
        set(p, ink);
        text(p, x - 18, bottom + 14, FONT - 1,
             clock_of(at,
                      step < 60000      ? FORM_SECOND
                      : step < 86400000 ? FORM_MINUTE
                                        : FORM_DAY,
                      room));
    }
}

/* How many nodes each epoch had. */
static void draw_nodes(struct plot *p, double top)
{
    char room[ROW_ROOM];
    double bottom = top + NODES_HEIGHT;
    for (size_t i = 0; i < p->ledger->n; i++) {
        const struct epoch_row *epoch = epoch_at(p->ledger, i);
        if (!epoch || epoch->began <= 0 || epoch->running < 0) {
            continue;
        }
        double x = x_of(p, epoch->began);
        double height = NODES_HEIGHT * epoch->row.members / (p->most > 0 ? p->most : 1);
        box(p, nodes_colour, x, bottom - height,
            larger(0.5, x_of(p, epoch->began + epoch->running) - x), height);
    }
    set(p, ink);
    (void)snprintf(room, sizeof(room), "%u", (unsigned)p->most);
    text_before(p, LEFT - 6, top + FONT, room);
    text_before(p, LEFT - 6, bottom, "0");
    text(p, LEFT, top - 6, FONT, "nodes that train");
    cairo_set_line_width(p->cr, 0.7);
    cairo_move_to(p->cr, LEFT, bottom);
    cairo_line_to(p->cr, WIDTH - RIGHT, bottom);
    cairo_stroke(p->cr);
}

static void draw_epoch(struct plot *p, const struct epoch_row *epoch, double y)
{
    double height = p->row > 6 ? p->row - 3 : p->row;
    int64_t at =
        epoch->row.at[EPOCH_DETECTED].ms > 0 ? epoch->row.at[EPOCH_DETECTED].ms : beginning(epoch);
    for (size_t i = 0; i < N_PHASES; i++) {
        int64_t until = epoch->row.at[phases[i].until].ms;
        if (until > at) {
            double x = x_of(p, at);
            box(p, phases[i].colour, x, y, larger(0.4, x_of(p, until) - x), height);
            at = until;
        }
    }
    if (epoch->began > 0 && epoch->running > 0) {
        double x = x_of(p, epoch->began);
        box(p, trains, x, y, larger(0.4, x_of(p, epoch->began + epoch->running) - x), height);
    }
    if (p->row < FONT + 1) {
        return;
    }
    char blamed[128];
    char room[ROW_ROOM];
    set(p, ink);
    (void)snprintf(room, sizeof(room), "%llu", (unsigned long long)epoch->row.epoch);
    text_before(p, LEFT - 6, y + height - 3, room);
    (void)snprintf(room, sizeof(room), "%s%s%.40s%s, %u node%s", msg_cause_name(epoch->row.cause),
                   epoch->row.blamed[0] != '\0' ? " (" : "",
                   shown_text(epoch->row.blamed, blamed, sizeof(blamed)),
                   epoch->row.blamed[0] != '\0' ? ")" : "", (unsigned)epoch->row.members,
                   epoch->row.members == 1 ? "" : "s");
    text(p, WIDTH - RIGHT + 8, y + height - 3, FONT, room);
}

static void draw_epochs(struct plot *p, double top)
{
    double y = top;
    set(p, ink);
    text(p, LEFT, top - 6, FONT, "epochs");
    for (size_t i = 0; i < p->ledger->n; i++) {
        const struct epoch_row *epoch = epoch_at(p->ledger, i);
        if (epoch && beginning(epoch) >= 0) {
            draw_epoch(p, epoch, y);
            y += p->row;
        }
    }
}

/* A patch of colour and its words; where the next one begins. */
static double draw_key(struct plot *p, struct colour c, double x, double y, const char *words)
{
    cairo_text_extents_t extents;
    box(p, c, x, y - 9, 10, 10);
    set(p, ink);
    text(p, x + 14, y, FONT, words);
    cairo_text_extents(p->cr, words, &extents);
    return x + 14 + extents.x_advance + 16;
}

/* What became of the time, as one bar, and the words for all colours. */
static void draw_summary(struct plot *p, const struct epochs_total *total, double y)
{
    char span[ROW_ROOM];
    char words[ROW_ROOM + 64];
    double all = (double)(total->running + total->standstill_all);
    double width = WIDTH - LEFT - RIGHT;
    double x = LEFT;
    double keys = draw_key(p, trains, LEFT, y + 44, "trains");
    for (size_t i = 0; i < N_PHASES; i++) {
        keys = draw_key(p, phases[i].colour, keys, y + 44, phases[i].name);
    }
    set(p, ink);
    text(p, LEFT, y - 6, FONT, "what became of the time");
    if (all <= 0) {
        return;
    }
    double part = width * (double)total->running / all;
    box(p, trains, x, y, part, 18);
    x += part;
    (void)snprintf(words, sizeof(words), "trained %s", row_span_text(total->running, span));
    keys = draw_key(p, trains, LEFT, y + 68, words);
    for (unsigned i = 0; i < EPOCHS_CAUSES; i++) {
        if (total->standstill[i] <= 0) {
            continue;
        }
        part = width * (double)total->standstill[i] / all;
        box(p, causes[i], x, y, larger(0.4, part), 18);
        x += part;
        (void)snprintf(words, sizeof(words), "%s %s", msg_cause_name((enum tfe_cause)i),
                       row_span_text(total->standstill[i], span));
        keys = draw_key(p, causes[i], keys, y + 68, words);
    }
    set(p, ink);
    if (total->useful >= 0) {
        (void)snprintf(words, sizeof(words), "%.1f %% useful", total->useful);
        text(p, WIDTH - RIGHT + 8, y + 14, FONT + 2, words);
    }
}

static void draw(struct plot *p, const char *job, const struct epochs_total *total)
{
    char from[ROW_ROOM];
    char to[ROW_ROOM];
    char title[2 * ROW_ROOM];
    double nodes_top = TOP;
    double epochs_top = nodes_top + NODES_HEIGHT + GAP;
    double bottom = epochs_top + p->row * (double)p->n;
    cairo_set_source_rgb(p->cr, 1, 1, 1);
    cairo_paint(p->cr);
    cairo_select_font_face(p->cr, "sans", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    set(p, ink);
    (void)snprintf(title, sizeof(title), "job %s", job);
    text(p, LEFT, 24, FONT + 6, title);
    (void)snprintf(title, sizeof(title), "%.60s to %.60s, %zu epoch%s",
                   clock_of(p->from, FORM_DATE, from), clock_of(p->to, FORM_DATE, to), p->n,
                   p->n == 1 ? "" : "s");
    text(p, LEFT, 40, FONT, title);
    draw_grid(p, nodes_top, bottom);
    draw_nodes(p, nodes_top);
    draw_epochs(p, epochs_top);
    draw_summary(p, total, bottom + GAP + 14);
}

/* --- the file --------------------------------------------------------------------------------- */

static bool ends_in(const char *file, const char *end)
{
    size_t n = strlen(file);
    return n > strlen(end) && strcmp(file + n - strlen(end), end) == 0;
}

static cairo_status_t put(void *ctx, const unsigned char *bytes, unsigned n)
{
    return fwrite(bytes, 1, n, ctx) == n ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

static cairo_status_t paint(struct plot *p, const char *job, const struct epochs_total *total,
                            bool is_svg, FILE *out)
{
    double height = TOP + NODES_HEIGHT + GAP + p->row * (double)p->n + SUMMARY_HEIGHT;
    /* Twice as many dots as points, for screens and paper of today; fewer for thousands of epochs.
     */
    double dots = smaller(2, IMAGE_DOTS_MOST / height);
    cairo_surface_t *surface =
        is_svg ? cairo_svg_surface_create_for_stream(put, out, WIDTH, height)
               : cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)(WIDTH * dots),
                                            (int)(height * dots));
    p->cr = cairo_create(surface);
    if (!is_svg) {
        cairo_scale(p->cr, dots, dots);
    }
    draw(p, job, total);
    cairo_status_t status = cairo_status(p->cr);
    cairo_destroy(p->cr);
    if (status == CAIRO_STATUS_SUCCESS && !is_svg) {
        status = cairo_surface_write_to_png_stream(surface, put, out);
    }
    cairo_surface_finish(surface);
    status = status == CAIRO_STATUS_SUCCESS ? cairo_surface_status(surface) : status;
    cairo_surface_destroy(surface);
    return status;
}

int plot_write(const struct row_list *ledger, const char *job, struct tfe_wall now,
               const char *file, struct tfe_why *why)
{
    const bool is_svg = ends_in(file, ".svg");
    struct plot p = {.ledger = ledger};
    struct epochs_total total;
    if (!is_svg && !ends_in(file, ".png")) {
        why_set(why, "--plot: %s ends neither in .svg nor in .png", file);
        return TFE_EINVAL;
    }
    measure(&p, now);
    if (p.n == 0) {
        why_set(why, "--plot: job %s has had no epoch yet", job);
        return TFE_EINVAL;
    }
    epochs_sum(ledger, now, &total);
    FILE *out = fopen(file, "we");
    if (!out) {
        why_errno(why, "--plot: open %s", file);
        return TFE_ESYS;
    }
    cairo_status_t status = paint(&p, job, &total, is_svg, out);
    bool is_whole = status == CAIRO_STATUS_SUCCESS && ferror(out) == 0;
    is_whole = fclose(out) == 0 && is_whole;
    if (!is_whole) {
        why_set(why, "--plot: write %s: %s", file,
                status != CAIRO_STATUS_SUCCESS ? cairo_status_to_string(status)
                                               : "no room, or the disk fails");
        return TFE_ESYS;
    }
    return 0;
}
