/* server/events/log_relay.c: relays trainers' output from agents to clients. */
#include "server/events/log_relay.h"

#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/timer.h"
#include "common/channel/admission.h"
#include "common/channel/channel.h"
#include "common/cli/log.h"
#include "server/events/log_tails.h"
#include "server/jobs/job_registry.h"
#include "server/query/record_source.h"
#include "server/session.h"

/* An agent that sends output for a request. */
struct log_source {
    uint32_t session; /* session number; SESSION_NO_NUMBER if the entry is free */
    struct tfe_id node;
    char *name;
    uint32_t left;     /* credit that the agent has left, in bytes */
    uint32_t consumed; /* credit of consumed chunks that is to be granted again */
    uint64_t behind;   /* lines that the agent still held when its trainers ended */
    bool has_sent;     /* the agent has sent something since the last check */
    bool done;
};

/* A row that waits to be read by the client. */
struct queued_row {
    STAILQ_ENTRY(queued_row) link;
    struct log_source *of; /* source that gets credit for the row; NULL if none */
    uint32_t cost;
    struct tfe_id node;
    struct msg_log_lines row;
    char texts[]; /* name and text */
};

struct log_request {
    struct rows rows;
    struct log_relay *relay;
    LIST_ENTRY(log_request) link;
    struct admission_slot place;
    uint64_t number;
    struct tfe_id job;
    char *node;                  /* id or label of the node; NULL for all nodes */
    struct msg_log_request spec; /* what each agent is to send */
    uint32_t nproc;
    uint32_t window;
    struct event check_timer; /* timer that checks for silent agents */
    STAILQ_HEAD(, queued_row) queue;
    struct queued_row
        *current; /* the row read last, which the client's message borrows; NULL if none */
    uint32_t n_sources;
    struct log_source sources[LIMIT_LOG_NODES];
    enum tfe_refusal refusal; /* reason to refuse the request; 0 if none */
    char sentence[TFE_LABEL_MAX + 128];
};

struct log_relay {
    struct sessions *all;
    LIST_HEAD(, log_request) requests;
    struct admission *admission; /* quotas of requests, by key and scope */
    uint64_t last_number;
    struct log_tails tails;
};

/* --- agents ----------------------------------------------------------------------------------- */

/* Sends a message to an agent. A failure ends its channel without further handling here. */
static void send_to_agent(const struct log_relay *r, uint32_t session, const struct tfe_msg *msg)
{
    const struct session *s = session < r->all->max ? r->all->by_number[session] : NULL;
    if (s && s->phase == SESSION_OPEN && s->channel && channel_send(s->channel, msg) != 0) {
        log_debug("log_message_lost", LOG_U("session", session));
    }
}

static void free_source(struct log_source *source)
{
    free(source->name);
    *source = (struct log_source){.session = SESSION_NO_NUMBER, .done = true};
}

/* Removes a source; retains the rows that it has sent. */
static void end_source(struct log_request *request, struct log_source *source)
{
    struct queued_row *queued;
    STAILQ_FOREACH(queued, &request->queue, link)
    {
        queued->of = queued->of == source ? NULL : queued->of;
    }
    if (request->current && request->current->of == source) {
        request->current->of = NULL;
    }
    free_source(source);
    request->n_sources--;
}

/* True if the request selects this node. */
static bool selects(const struct log_request *request, const char *job, const char *node,
                    const char *name)
{
    return strcmp(job, request->job.text) == 0 &&
           (!request->node || strcmp(request->node, node) == 0 || strcmp(request->node, name) == 0);
}

/* True if the node has the requested rank now. In an explicit epoch any node may have had it. */
static bool has_rank(const struct log_request *request, const struct rdzv_node *who)
{
    const struct msg_log_request *spec = &request->spec;
    return !spec->has_rank || spec->epoch > 0 ||
           (who->is_member && spec->rank >= who->rank && spec->rank - who->rank < request->nproc);
}

static struct log_source *source_of(struct log_request *request, uint32_t session)
{
    for (uint32_t i = 0; i < LIMIT_LOG_NODES; i++) {
        if (request->sources[i].session == session) {
            return &request->sources[i];
        }
    }
    return NULL;
}

/* Requests output of one more agent. Returns false if the limit is reached or memory is out. */
static bool add_source(struct log_request *request, uint32_t session, const struct rdzv_node *who)
{
    struct log_source *source = source_of(request, SESSION_NO_NUMBER);
    char *name = source ? strdup(who->name) : NULL;
    if (!name) {
        return false;
    }
    *source = (struct log_source){.session = session, .name = name, .left = request->window};
    (void)id_set(&source->node, who->node); /* node ids of the core are valid */
    request->n_sources++;
    struct tfe_msg msg = {.type = MSG_LOG_REQUEST, .u.log_request = request->spec};
    msg.u.log_request.window = request->window;
    send_to_agent(request->relay, session, &msg);
    return true;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void wake(const struct log_request *request)
{
    if (request->rows.wake) {
        request->rows.wake(request->rows.wake_ctx);
    }
}

/* Appends a row with copies of its texts. Returns 0 or TFE_ENOMEM. */
static int queue_row(struct log_request *request, struct log_source *of, uint32_t cost,
                     const struct msg_log_lines *row)
{
    size_t n_name = strlen(row->name) + 1;
    size_t n_text = strlen(row->text) + 1;
    struct queued_row *queued = malloc(sizeof(*queued) + n_name + n_text);
    if (!queued) {
        return TFE_ENOMEM;
    }
    *queued = (struct queued_row){.of = of, .cost = cost, .row = *row};
    (void)id_set(&queued->node, row->node);
    queued->row.node = queued->node.text;
    queued->row.name = memcpy(queued->texts, row->name, n_name);
    queued->row.text = memcpy(queued->texts + n_name, row->text, n_text);
    STAILQ_INSERT_TAIL(&request->queue, queued, link);
    return 0;
}

/* Grants consumed credit again, a quarter of the window at a time: one message per row would cost
 * as much as the row itself. */
static void grant_credit(struct log_request *request, struct log_source *source, uint32_t cost)
{
    source->consumed += cost;
    if (source->consumed >= request->window / 4) {
        const struct tfe_msg msg = {.type = MSG_LOG_CREDIT,
                                    .u.log_credit = {request->number, source->consumed}};
        source->left += source->consumed;
        source->consumed = 0;
        send_to_agent(request->relay, source->session, &msg);
    }
}

static bool is_over(const struct log_request *request)
{
    bool is_over = !request->spec.follow;
    for (uint32_t i = 0; is_over && i < LIMIT_LOG_NODES; i++) {
        is_over = request->sources[i].done;
    }
    return is_over;
}

static int logs_next(struct rows *rows, struct tfe_msg *ret)
{
    struct log_request *request = (struct log_request *)rows;
    free(request->current);
    request->current = request->refusal ? NULL : STAILQ_FIRST(&request->queue);
    if (request->refusal) {
        *ret = (struct tfe_msg){.type = MSG_REFUSED,
                                .u.refused = {request->refusal, request->sentence}};
    } else if (request->current) {
        STAILQ_REMOVE_HEAD(&request->queue, link);
        *ret = (struct tfe_msg){.type = MSG_LOG_LINES, .u.log_lines = request->current->row};
        if (request->current->of) {
            grant_credit(request, request->current->of, request->current->cost);
        }
    } else if (is_over(request)) {
        *ret = (struct tfe_msg){.type = MSG_STATUS_END};
    } else {
        return TFE_EMORE;
    }
    return 0;
}

static void logs_free(struct rows *rows)
{
    struct log_request *request = (struct log_request *)rows;
    struct queued_row *queued;
    for (uint32_t i = 0; i < LIMIT_LOG_NODES; i++) {
        struct log_source *source = &request->sources[i];
        const struct tfe_msg stop = {.type = MSG_LOG_STOP, .u.log_stop = {request->number}};
        if (source->session != SESSION_NO_NUMBER && !source->done) {
            send_to_agent(request->relay, source->session, &stop);
        }
        free_source(source);
    }
    while ((queued = STAILQ_FIRST(&request->queue))) {
        STAILQ_REMOVE_HEAD(&request->queue, link);
        free(queued);
    }
    (void)event_del(&request->check_timer);
    LIST_REMOVE(request, link);
    admission_leave(request->relay->admission, &request->place);
    free(request->current);
    free(request->node);
    free(request);
}

/* Reports that a source does not answer, and removes it. */
static void give_up(struct log_request *request, struct log_source *source)
{
    const struct msg_log_lines row = {.node = source->node.text,
                                      .name = source->name,
                                      .stream = STREAM_STDERR,
                                      .text = "",
                                      .silent = true};
    if (queue_row(request, NULL, 0, &row) != 0) {
        log_debug("log_row_lost", LOG_S("node", source->node.text));
    }
    end_source(request, source);
}

/* Checks for silent agents. Not used for requests that follow, which wait indefinitely. */
static void on_check(evutil_socket_t fd, short what, void *ctx)
{
    struct log_request *request = ctx;
    (void)fd;
    (void)what;
    for (uint32_t i = 0; i < LIMIT_LOG_NODES; i++) {
        struct log_source *source = &request->sources[i];
        bool has_credit = source->left >= request->window / 2;
        if (!source->done && !source->has_sent && has_credit) {
            give_up(request, source);
        }
        source->has_sent = source->has_sent && !has_credit; /* starts the next check period */
    }
    (void)timer_after(&request->check_timer, LIMIT_LOG_SILENCE_MS);
    wake(request);
}

/* --- requests --------------------------------------------------------------------------------- */

/* True if the tail's node is not among the sources. */
static bool is_gone(const struct log_request *request, const struct log_tail *tail)
{
    for (uint32_t i = 0; i < LIMIT_LOG_NODES; i++) {
        if (strcmp(request->sources[i].node.text, tail->node.text) == 0) {
            return false;
        }
    }
    return true;
}

/* Appends the stored tails of nodes that are gone. Returns 0 or TFE_ENOMEM. */
static int queue_tails(struct log_request *request)
{
    const struct log_tail *tail;
    const struct msg_log_request *spec = &request->spec;
    int rc = 0;
    for (unsigned i = 0; rc == 0 && (tail = log_tails_get(&request->relay->tails, i)); i++) {
        if (selects(request, tail->job.text, tail->node.text, tail->name) &&
            is_gone(request, tail) && (!spec->has_rank || spec->rank == tail->rank) &&
            (spec->epoch == 0 || spec->epoch == tail->epoch) && tail->at.ms >= spec->since.ms) {
            rc = queue_row(request, NULL, 0,
                           &(struct msg_log_lines){.node = tail->node.text,
                                                   .name = tail->name,
                                                   .epoch = tail->epoch,
                                                   .rank = tail->rank,
                                                   .stream = STREAM_STDERR,
                                                   .at = tail->at,
                                                   .text = tail->text,
                                                   .tail = true});
        }
    }
    return rc;
}

__attribute__((format(printf, 3, 4))) static void
refuse(struct log_request *request, enum tfe_refusal code, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    request->refusal = code;
    (void)vsnprintf(request->sentence, sizeof(request->sentence), format, values);
    va_end(values);
}

/* Ends the requests that exceed a quota because of this one. Returns false if this one must end
 * itself. */
static bool evict_requests(struct log_relay *r, struct log_request *request)
{
    for (struct admission_slot *place;
         (place = admission_next_eviction(r->admission, &request->place, NULL));) {
        struct log_request *other = place->owner;
        admission_leave(r->admission, place);
        if (other == request) {
            return false;
        }
        refuse(other, REFUSAL_LIMIT_REACHED,
               "log reader closed: too many log readers, and this token has the most (try again "
               "later)");
        wake(other);
    }
    return true;
}

/* Finds the sessions of agents that the request selects. */
static void find_sources(struct log_request *request)
{
    const struct sessions *all = request->relay->all;
    struct rdzv_node who;
    uint32_t found[LIMIT_LOG_NODES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < all->n_fresh; i++) {
        const struct session *s = all->by_number[i];
        if (s && s->phase == SESSION_OPEN && rdzv_get_session_node(all->rdzv, i, &who) == 0 &&
            selects(request, who.job, who.node, who.name) && has_rank(request, &who)) {
            found[n < LIMIT_LOG_NODES ? n : 0] = i;
            n++;
        }
    }
    if (n > LIMIT_LOG_NODES) {
        refuse(request, REFUSAL_LIMIT_REACHED,
               "cannot read the logs of job %s: it has too many nodes for one request (name a rank "
               "or a node)",
               request->job.text);
        return;
    }
    uint32_t shares = request->spec.follow ? 4 : 1; /* nodes that join later need a share */
    request->window = LIMIT_LOG_WINDOW / (n > shares ? n : shares);
    if (request->window < LIMIT_LOG_WINDOW_MIN) {
        request->window = LIMIT_LOG_WINDOW_MIN;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (rdzv_get_session_node(all->rdzv, found[i], &who) == 0) {
            (void)add_source(request, found[i], &who);
        }
    }
}

static const struct rows_ops logs_ops = {.next = logs_next, .free = logs_free};

int rows_logs(struct log_relay *r, const struct principal *by, const struct msg_logs *logs,
              struct rows **ret)
{
    struct msg_status_job job;
    struct registry_texts texts = {.pool = {.shows_arguments = false}};
    struct log_request *request = calloc(1, sizeof(*request));
    if (!request || (logs->node && !(request->node = strdup(logs->node)))) {
        free(request);
        return TFE_ENOMEM;
    }
    request->rows.ops = &logs_ops;
    request->relay = r;
    request->number = ++r->last_number;
    request->spec = (struct msg_log_request){.request = request->number,
                                             .has_rank = logs->has_rank,
                                             .rank = logs->rank,
                                             .epoch = logs->epoch,
                                             .follow = logs->follow,
                                             .lines = logs->lines,
                                             .since = logs->since};
    (void)id_set(&request->job, logs->job); /* the codec has validated the id */
    STAILQ_INIT(&request->queue);
    for (uint32_t i = 0; i < LIMIT_LOG_NODES; i++) {
        free_source(&request->sources[i]);
    }
    LIST_INSERT_HEAD(&r->requests, request, link);
    const struct admission_claim claim = admission_claim_of(by, 1);
    if (admission_enter(r->admission, &claim, request, &request->place) != 0) {
        logs_free(&request->rows);
        return TFE_ENOMEM;
    }
    (void)evtimer_assign(&request->check_timer, r->all->base, on_check, request);
    if (!evict_requests(r, request)) {
        refuse(request, REFUSAL_LIMIT_REACHED,
               "too many log readers, of this token or in total (try again later)");
    } else if (registry_find(r->all, logs->job, &texts, &job) != 0) {
        refuse(request, REFUSAL_NO_SUCH_JOB, "there is no job \"%s\" on this server", logs->job);
    } else {
        request->nproc = job.nproc;
        find_sources(request);
        int rc = request->refusal ? 0 : queue_tails(request);
        if (rc == 0 && !request->refusal && request->node && request->n_sources == 0 &&
            STAILQ_EMPTY(&request->queue) && !request->spec.follow) {
            refuse(request, REFUSAL_NO_SUCH_NODE,
                   "job has no node \"%s\", and the server has no stored output of it",
                   request->node);
        }
        if (rc != 0 || (!request->spec.follow &&
                        timer_after(&request->check_timer, LIMIT_LOG_SILENCE_MS) != 0)) {
            logs_free(&request->rows);
            return TFE_ENOMEM;
        }
    }
    *ret = &request->rows;
    return 0;
}

/* --- messages of agents ----------------------------------------------------------------------- */

static struct log_request *request_of(const struct log_relay *r, uint64_t number)
{
    struct log_request *request;
    LIST_FOREACH(request, &r->requests, link)
    {
        if (request->number == number) {
            return request;
        }
    }
    return NULL;
}

static uint64_t count_lines(const char *text)
{
    uint64_t lines = 1;
    for (; (text = strchr(text, '\n')); text++) {
        lines++;
    }
    return lines;
}

static uint64_t subtract(uint64_t from, uint64_t by)
{
    return by < from ? from - by : 0;
}

/* Handles a chunk. Returns false if it exceeds the agent's credit. */
static bool handle_chunk(struct log_request *request, struct log_source *source,
                         const struct msg_log_chunk *chunk)
{
    uint32_t cost = MSG_LOG_COST + (uint32_t)strlen(chunk->text);
    const struct msg_log_lines row = {.node = source->node.text,
                                      .name = source->name,
                                      .epoch = chunk->epoch,
                                      .rank = chunk->rank,
                                      .stream = chunk->stream,
                                      .at = chunk->at,
                                      .text = chunk->text,
                                      .lost = chunk->lost};
    if (chunk->behind > 0) {
        source->behind = chunk->behind;
        return false; /* sent without credit, so it counts against the message rate */
    }
    if (cost > source->left) {
        return false;
    }
    /* These lines, and those reported as lost, are no longer held by the agent. */
    source->behind = subtract(subtract(source->behind, chunk->lost), count_lines(chunk->text));
    source->left -= cost;
    if (queue_row(request, source, cost, &row) != 0) {
        log_debug("log_row_lost", LOG_S("node", source->node.text));
        grant_credit(request, source, cost);
    }
    return true;
}

bool log_relay_handle(struct log_relay *r, uint32_t session, const struct tfe_msg *msg)
{
    bool is_chunk = msg->type == MSG_LOG_CHUNK;
    if (!is_chunk && msg->type != MSG_LOG_DONE) {
        return false;
    }
    struct log_request *request =
        request_of(r, is_chunk ? msg->u.log_chunk.request : msg->u.log_done.request);
    struct log_source *source = request ? source_of(request, session) : NULL;
    if (!source || source->done) {
        return false;
    }
    source->has_sent = true;
    if (is_chunk && !handle_chunk(request, source, &msg->u.log_chunk)) {
        return false;
    }
    source->done = !is_chunk;
    wake(request);
    return true;
}

void log_relay_exited(struct log_relay *r, uint32_t session, const struct msg_exited *exited)
{
    struct rdzv_node who;
    if (exited->stopped || exited->tail[0] == '\0' ||
        rdzv_get_session_node(r->all->rdzv, session, &who) != 0) {
        return;
    }
    const struct log_tail *known;
    for (unsigned i = 0; (known = log_tails_get(&r->tails, i)); i++) {
        if (known->epoch == exited->epoch && strcmp(known->node.text, who.node) == 0) {
            return; /* repeated on a new connection */
        }
    }
    struct log_tail *tail = calloc(1, sizeof(*tail));
    if (!tail || !(tail->text = strdup(exited->tail))) {
        free(tail);
        return;
    }
    (void)id_set(&tail->job, who.job);
    (void)id_set(&tail->node, who.node);
    (void)snprintf(tail->name, sizeof(tail->name), "%s", who.name);
    tail->epoch = exited->epoch;
    tail->rank = who.rank + exited->local_rank;
    tail->at = clock_wall();
    log_tails_add(&r->tails, tail);
}

void log_relay_agent_joined(struct log_relay *r, uint32_t session)
{
    struct rdzv_node who;
    struct log_request *request;
    if (LIST_EMPTY(&r->requests) || rdzv_get_session_node(r->all->rdzv, session, &who) != 0) {
        return;
    }
    LIST_FOREACH(request, &r->requests, link)
    {
        if (request->spec.follow && !request->refusal &&
            selects(request, who.job, who.node, who.name) && has_rank(request, &who) &&
            !source_of(request, session) && !add_source(request, session, &who)) {
            log_debug("logs_not_followed", LOG_S("node", who.node));
        }
    }
}

/* Reports the lines that a disconnected agent still held as lost. */
static void report_lost(struct log_request *request, const struct log_source *source)
{
    const struct msg_log_lines row = {.node = source->node.text,
                                      .name = source->name,
                                      .stream = STREAM_STDOUT,
                                      .text = "",
                                      .lost = source->behind};
    if (source->behind > 0 && queue_row(request, NULL, 0, &row) != 0) {
        log_debug("log_row_lost", LOG_S("node", source->node.text));
    }
}

void log_relay_agent_left(struct log_relay *r, uint32_t session)
{
    struct log_request *request;
    if (!r || session == SESSION_NO_NUMBER) {
        return;
    }
    LIST_FOREACH(request, &r->requests, link)
    {
        struct log_source *source = source_of(request, session);
        if (source) {
            report_lost(request, source);
            end_source(request, source);
            wake(request);
        }
    }
}

/* --- start and end ---------------------------------------------------------------------------- */

int log_relay_new(struct sessions *all, struct log_relay **ret)
{
    const struct admission_config config = {.capacity = LIMIT_LOG_REQUESTS,
                                            .reserve = LIMIT_ADMIN_LOG_REQUESTS};
    struct log_relay *r = calloc(1, sizeof(*r));
    if (!r || admission_new(&config, &r->admission) != 0) {
        free(r);
        return TFE_ENOMEM;
    }
    r->all = all;
    LIST_INIT(&r->requests);
    *ret = r;
    return 0;
}

void log_relay_forget(struct log_relay *r, const char *job)
{
    log_tails_forget(&r->tails, job);
}

void log_relay_free(struct log_relay *r)
{
    if (r) {
        log_tails_done(&r->tails);
        admission_free(r->admission);
        free(r);
    }
}
