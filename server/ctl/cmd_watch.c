/* server/ctl/cmd_watch.c: tfe-ctl watch: a full screen that is updated until q. */
#include <curses.h>
#include <event2/event.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/timer.h"
#include "common/channel/endpoint.h"
#include "common/records/client.h"
#include "common/records/epoch_summary.h"
#include "common/records/schemas.h"
#include "common/text/escape.h"
#include "server/ctl/terminal.h"
#include "server/ctl/verb.h"
#include "server/ctl/watch_view.h"

/* Update interval; one second longer per thousand nodes. */
#define POLL_MS 1000
#define NODES_A_SECOND 1000

/* A connection without any response for this long is opened anew. */
#define SILENCE_MS 5000
#define RETRY_MS 2000

/* Queries in the order in which they are repeated. */
enum question { ASK_JOBS, ASK_STATUS, ASK_EPOCHS, ASK_EVENTS, ASK_RATE, ASK_LOSS, ASK__N };

/* Number of events to request: as many as fit a large screen. */
#define EVENTS_SHOWN 30

/* The displayed curves and their names. */
static const struct {
    const char *series, *name;
} curves[] = {{"steps_per_s", "steps/s"}, {"loss", "loss"}};

struct watch {
    const struct ctl_settings *settings;
    struct event_base *base;
    struct client *client;
    struct join_info admin; /* token for orders; has_admin is false if there is none */
    bool has_admin;
    struct client *orders; /* connection for orders; NULL before the first order */
    struct event *key, *resized, *quit[2], *again;
    SCREEN *terminal;
    struct watch_model model;
    struct tfe_msg message;
    struct client_request request;
    enum question at;
    struct tfe_id asked; /* job of the pending query */
    uint32_t run;        /* run of the selected job that the curves belong to */
    struct tfe_msg order;
    struct client_request order_request;
    struct tfe_id order_node;
    bool ordering;
    char question[TFE_LABEL_MAX + 64];
    char status_line[MSG_SENTENCE_MAX + 64];
    char trouble[256];
    char server[ENDPOINT_TEXT_MAX];
};

/* --- terminal --- */

static const struct {
    attr_t attributes;
    short colour; /* -1 for the terminal's default */
} styles[WATCH__STYLES] = {
    [WATCH_PLAIN] = {A_NORMAL, -1},
    [WATCH_BOLD] = {A_BOLD, -1},
    [WATCH_FAINT] = {A_DIM, -1},
    [WATCH_BAR] = {A_REVERSE, -1},
    [WATCH_CHOSEN] = {A_REVERSE | A_BOLD, COLOR_CYAN},
    [WATCH_GOOD] = {A_NORMAL, COLOR_GREEN},
    [WATCH_WARN] = {A_NORMAL, COLOR_YELLOW},
    [WATCH_BAD] = {A_BOLD, COLOR_RED},
    [WATCH_NEWS] = {A_NORMAL, COLOR_CYAN},
};

static void begin_colours(void)
{
    if (!terminal_has_colour() || !has_colors() || start_color() == ERR) {
        return;
    }
    (void)use_default_colors();
    for (short i = 0; i < WATCH__STYLES; i++) {
        (void)init_pair((short)(i + 1), styles[i].colour, -1);
    }
}

static bool begin_terminal(struct watch *w)
{
    w->model.utf8 = terminal_is_utf8();
    w->terminal = newterm(NULL, stdout, stdin);
    if (!w->terminal) {
        (void)fprintf(stderr, "tfe-ctl: cannot show a full screen on this terminal (TERM=%s)\n",
                      getenv("TERM") ? getenv("TERM") : "");
        return false;
    }
    (void)cbreak();
    (void)noecho();
    (void)curs_set(0);
    (void)keypad(stdscr, TRUE);
    (void)nodelay(stdscr, TRUE);
    (void)set_escdelay(25);
    begin_colours();
    return true;
}

static void end_terminal(struct watch *w)
{
    if (w->terminal) {
        (void)endwin();
        delscreen(w->terminal);
    }
}

static void show(struct watch *w)
{
    struct watch_screen screen;
    if (watch_screen_init(&screen, COLS, LINES) != 0) {
        return; /* the next update draws */
    }
    const bool has_colour = has_colors() && COLOR_PAIRS > WATCH__STYLES && terminal_has_colour();
    w->model.now = clock_wall();
    watch_draw(&w->model, &screen);
    for (int y = 0; y < screen.height; y++) {
        for (int x = 0; x < screen.width; x++) {
            const struct watch_cell *cell =
                &screen.cells[(size_t)y * (size_t)screen.width + (size_t)x];
            (void)attr_set(styles[cell->style].attributes,
                           has_colour ? (short)(cell->style + 1) : 0, NULL);
            (void)mvaddstr(y, x, cell->text);
        }
    }
    (void)refresh();
    watch_screen_done(&screen);
}

/* --- responses --- */

static void request_next(struct watch *w);

static const enum operation_id questions[ASK__N] = {
    [ASK_JOBS] = OPERATION_JOBS,     [ASK_STATUS] = OPERATION_STATUS,
    [ASK_EPOCHS] = OPERATION_EPOCHS, [ASK_EVENTS] = OPERATION_EVENTS,
    [ASK_RATE] = OPERATION_SERIES,   [ASK_LOSS] = OPERATION_SERIES,
};

static void put_question(struct watch *w)
{
    struct client_request *request = &w->request;
    const char *job = w->model.job.text[0] != '\0' ? w->model.job.text : NULL;
    w->asked = w->model.job;
    job = job ? w->asked.text : NULL;
    request->message = &w->message;
    w->message = operation_request(questions[w->at], job);
    if (w->at == ASK_EVENTS) {
        w->message.u.events.last = EVENTS_SHOWN;
    } else if (w->at == ASK_RATE || w->at == ASK_LOSS) {
        w->message.u.series.name = curves[w->at - ASK_RATE].series;
        w->message.u.series.after = w->model.curves[w->at - ASK_RATE].last;
    }
    client_request(w->client, request);
}

/* Moves the rows of the list into the model, in place of its old ones. */
static void take_rows(struct watch *w, struct record_list *to)
{
    record_list_done(to);
    *to = w->request.list;
    w->request.list = (struct record_list){.v = NULL};
}

/* Selects the first (most active) job if none is selected or the selected one is gone. */
static void choose(struct watch *w)
{
    bool is_there = false;
    for (size_t i = 0; i < w->model.jobs.n; i++) {
        const struct msg_status_job *job = w->model.jobs.v[i].at;
        is_there = is_there || (w->model.jobs.v[i].schema == &schema_job &&
                                strcmp(job->job, w->model.job.text) == 0);
    }
    if (!is_there) {
        w->model.job.text[0] = '\0';
        watch_choose_job(&w->model, 0);
    }
}

/* Appends points; the oldest are dropped. */
static void add_points(struct watch_curve *curve, const struct record_list *points)
{
    for (size_t i = 0; i < points->n; i++) {
        const struct msg_series_row *point = points->v[i].at;
        if (curve->n == WATCH_POINTS_MAX) {
            memmove(curve->v, curve->v + 1, (WATCH_POINTS_MAX - 1) * sizeof(curve->v[0]));
            curve->n--;
        }
        curve->v[curve->n++] = point->value;
        curve->last = point->ord;
    }
}

static void forget_curves(struct watch *w)
{
    for (size_t i = 0; i < sizeof(curves) / sizeof(curves[0]); i++) {
        w->model.curves[i] = (struct watch_curve){.name = curves[i].name};
    }
}

/* Clears the curves when a new run begins, because its points are numbered from 1. */
static void follow_run(struct watch *w)
{
    const uint32_t run = watch_run(&w->model);
    if (run != w->run) {
        w->run = run;
        forget_curves(w);
    }
}

static void take_answer(struct watch *w)
{
    switch (w->at) {
    case ASK_JOBS:
        take_rows(w, &w->model.jobs);
        w->model.has_answer = true;
        choose(w);
        follow_run(w);
        return;
    case ASK_STATUS:
        take_rows(w, &w->model.status);
        if (!watch_node(&w->model) && !w->model.detail) {
            watch_choose_node(&w->model, 0);
        }
        return;
    case ASK_EPOCHS:
        take_rows(w, &w->model.ledger);
        return;
    case ASK_EVENTS:
        take_rows(w, &w->model.events);
        return;
    case ASK_RATE:
    case ASK_LOSS:
        add_points(&w->model.curves[w->at - ASK_RATE], &w->request.list);
        return;
    case ASK__N:
        return;
    }
}

static void on_ended(struct client_request *request, enum client_end how, enum tfe_refusal code,
                     const char *sentence)
{
    struct watch *w = (struct watch *)((char *)request - offsetof(struct watch, request));
    w->model.trouble = NULL;
    /* The selection may have changed while the response was in transit. */
    if (how == CLIENT_ANSWERED &&
        (w->at == ASK_JOBS || strcmp(w->asked.text, w->model.job.text) == 0) &&
        operation_arrange(questions[w->at], &request->list) == 0) {
        take_answer(w);
    } else if (how != CLIENT_ANSWERED && how != CLIENT_REFUSED) {
        (void)snprintf(w->trouble, sizeof(w->trouble), "%s", sentence);
        w->model.trouble = w->trouble;
    }
    record_list_done(&request->list);
    w->at++;
    request_next(w);
    show(w);
}

/* Sends the next query, or waits after the last one. */
static void request_next(struct watch *w)
{
    if (w->at != ASK_JOBS && w->model.job.text[0] == '\0') {
        w->at = ASK__N;
    }
    if (w->at == ASK__N) {
        w->at = ASK_JOBS;
        (void)timer_after(w->again, POLL_MS + (int64_t)(w->model.status.n / NODES_A_SECOND) * 1000);
    } else {
        put_question(w);
    }
}

static void on_again(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    request_next(ctx);
}

static void on_waiting(void *ctx, const char *reason)
{
    struct watch *w = ctx;
    (void)snprintf(w->trouble, sizeof(w->trouble), "%s", reason);
    w->model.trouble = w->trouble;
    show(w);
}

/* --- orders --- */

static void set_message(struct watch *w, const char *before, const char *words)
{
    (void)snprintf(w->status_line, sizeof(w->status_line), " %s%s", before, words);
    w->model.message = w->status_line;
}

static void on_ordered(struct client_request *request, enum client_end how, enum tfe_refusal code,
                       const char *sentence)
{
    struct watch *w = (struct watch *)((char *)request - offsetof(struct watch, order_request));
    w->ordering = false;
    set_message(
        w, how == CLIENT_ANSWERED ? "the node leaves its job; its agent will exit 0" : "not done: ",
        sentence);
    record_list_done(&request->list);
    show(w);
}

/* Returns a connection with an admin's token (watching uses the least privileged token), or NULL
 * if there is no such token. */
static struct client *order_client(struct watch *w)
{
    struct join_config opts = {.endpoint = w->settings->endpoint,
                               .token_file = w->settings->token_file,
                               .state_dir = w->settings->state_dir,
                               .roles = {PRINCIPAL_ADMIN},
                               .n_roles = 1};
    struct client_config config = {
        .base = w->base, .retry_max_ms = RETRY_MS, .silence_ms = SILENCE_MS};
    struct tfe_reason reason;
    if (w->orders || w->settings->token) {
        return w->orders ? w->orders : w->client; /* a token given by option is the only one */
    }
    if (join_find(&opts, &w->admin, &reason) != 0) {
        set_message(w, "not done: ", reason.text);
        return NULL;
    }
    w->has_admin = true;
    config.join = &w->admin;
    if (client_new(&config, &w->orders) != 0) {
        set_message(w, "not done: ", "out of memory");
        return NULL;
    }
    return w->orders;
}

static void drain(struct watch *w)
{
    struct client *client = w->ordering ? NULL : order_client(w);
    if (!client) {
        return;
    }
    w->ordering = true;
    w->order = operation_request(OPERATION_DRAIN, w->order_node.text);
    w->order_request = (struct client_request){.message = &w->order, .ended = on_ordered};
    client_request(client, &w->order_request);
}

static void open_drain_dialog(struct watch *w)
{
    const struct msg_status_node *node = watch_node(&w->model);
    char name[TFE_LABEL_MAX + 1];
    if (node) {
        w->order_node = w->model.node;
        (void)snprintf(
            w->question, sizeof(w->question), " drain %s? (y/n) ",
            escape_text(node->name[0] != '\0' ? node->name : node->node, name, sizeof(name)));
        w->model.question = w->question;
    }
}

/* --- keys --- */

static void on_job_key(struct watch *w, int by)
{
    struct tfe_id before = w->model.job;
    watch_choose_job(&w->model, by);
    if (strcmp(before.text, w->model.job.text) != 0) {
        record_list_done(&w->model.status);
        record_list_done(&w->model.ledger);
        record_list_done(&w->model.events);
        forget_curves(w);
        w->model.node.text[0] = '\0';
        w->model.detail = false;
        if (evtimer_pending(w->again, NULL)) {
            (void)timer_after(w->again, 0);
        }
    }
}

/* Handles a key. Returns false if the program ends. */
static bool take_key(struct watch *w, int key)
{
    if (w->model.question) {
        bool is_yes = key == 'y' || key == 'Y';
        w->model.question = NULL;
        if (is_yes) {
            drain(w);
        }
        return true;
    }
    w->model.message = NULL;
    switch (key) {
    case 'q':
        return false;
    case KEY_UP:
    case 'k':
        watch_choose_node(&w->model, -1);
        break;
    case KEY_DOWN:
    case 'j':
        watch_choose_node(&w->model, 1);
        break;
    case KEY_PPAGE:
        watch_choose_node(&w->model, -10);
        break;
    case KEY_NPAGE:
        watch_choose_node(&w->model, 10);
        break;
    case '\t':
        on_job_key(w, 1);
        break;
    case KEY_BTAB:
        on_job_key(w, -1);
        break;
    case '\r':
    case '\n':
    case KEY_ENTER:
        w->model.detail = !w->model.detail;
        break;
    case 27: /* Escape */
        w->model.detail = false;
        break;
    case 's':
        w->model.sort = (enum watch_sort)((w->model.sort + 1) % WATCH__SORTS);
        break;
    case 'd':
        open_drain_dialog(w);
        break;
    default:
        break;
    }
    return true;
}

static void on_key(evutil_socket_t fd, short what, void *ctx)
{
    struct watch *w = ctx;
    char nothing;
    bool should_continue = true;
    int key;
    (void)what;
    for (key = getch(); should_continue && key != ERR; key = getch()) {
        should_continue = take_key(w, key);
    }
    int waits = 0;
    if (should_continue && ioctl(fd, FIONREAD, &waits) == 0 && waits == 0 && !isatty(fd) &&
        read(fd, &nothing, 1) == 0) {
        should_continue = false; /* stdin was closed */
    }
    if (should_continue) {
        show(w);
    } else {
        (void)event_base_loopbreak(w->base);
    }
}

static void on_resized(evutil_socket_t fd, short what, void *ctx)
{
    struct watch *w = ctx;
    struct winsize size;
    (void)fd;
    (void)what;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        (void)resizeterm(size.ws_row, size.ws_col);
        (void)clear();
    }
    show(w);
}

static void on_quit(evutil_socket_t fd, short what, void *ctx)
{
    struct watch *w = ctx;
    (void)fd;
    (void)what;
    (void)event_base_loopbreak(w->base);
}

/* --- main loop --- */

static bool begin(struct watch *w)
{
    struct client_config config = {.join = &w->settings->server,
                                   .retry_max_ms = RETRY_MS,
                                   .silence_ms = SILENCE_MS,
                                   .waiting = on_waiting,
                                   .ctx = w};
    config.base = w->base = event_base_new();
    if (!w->base) {
        return false;
    }
    w->key = event_new(w->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_key, w);
    w->resized = evsignal_new(w->base, SIGWINCH, on_resized, w);
    w->quit[0] = evsignal_new(w->base, SIGINT, on_quit, w);
    w->quit[1] = evsignal_new(w->base, SIGTERM, on_quit, w);
    w->again = evtimer_new(w->base, on_again, w);
    return w->key && w->resized && w->quit[0] && w->quit[1] && w->again &&
           client_new(&config, &w->client) == 0 && event_add(w->key, NULL) == 0 &&
           event_add(w->resized, NULL) == 0 && event_add(w->quit[0], NULL) == 0 &&
           event_add(w->quit[1], NULL) == 0;
}

static void end(struct watch *w)
{
    client_free(w->client);
    client_free(w->orders);
    if (w->has_admin) {
        join_done(&w->admin);
    }
    event_drop(&w->key);
    event_drop(&w->resized);
    event_drop(&w->quit[0]);
    event_drop(&w->quit[1]);
    event_drop(&w->again);
    if (w->base) {
        event_base_free(w->base);
    }
    record_list_done(&w->request.list);
    record_list_done(&w->model.jobs);
    record_list_done(&w->model.status);
    record_list_done(&w->model.ledger);
    record_list_done(&w->model.events);
}

static int run(const struct ctl_verb *verb, const struct ctl_settings *settings, const char *job)
{
    int status = CTL_FAILED;
    (void)verb;
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
        (void)fprintf(stderr, "tfe-ctl: watch needs a terminal (use tfe-ctl status in programs)\n");
        return CTL_USAGE;
    }
    struct watch *w = calloc(1, sizeof(*w));
    if (!w) {
        return CTL_FAILED;
    }
    w->settings = settings;
    w->request.ended = on_ended;
    forget_curves(w);
    w->model.server = endpoint_format(w->server, settings->server.host, settings->server.port);
    if (job) {
        (void)id_set(&w->model.job, job); /* the verb has validated the id */
    }
    if (!begin(w)) {
        (void)fprintf(stderr, "tfe-ctl: cannot set up the event loop\n");
    } else if (begin_terminal(w)) {
        show(w);
        request_next(w);
        status = event_base_dispatch(w->base) == 0 ? EXIT_SUCCESS : CTL_FAILED;
    }
    end_terminal(w);
    end(w);
    free(w);
    return status;
}

const struct ctl_verb ctl_verb_watch = {
    .name = "watch",
    .operands = "[JOB]",
    .about = "show jobs, nodes and epochs on a full screen; q quits",
    .operand = CTL_JOB,
    .run = run,
};
