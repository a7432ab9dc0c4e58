/* server/core/view.c: read-only views of the core for status requests. */
#include <string.h>

#include "common/base/text.h"
#include "server/core/core.h"
#include "server/core/job.h"
#include "server/core/states.h"
#include "server/core/wait.h"

/* Returns true if the job has an epoch that is starting, running or being stopped. */
static bool has_epoch(const struct job *job)
{
    return job->state == JOB_RUNNING || job->state == JOB_COMMITTING || job->state == JOB_PREPARING;
}

static void show_job(const struct job *job, struct msg_status_job *ret)
{
    *ret = (struct msg_status_job){
        .job = job->name.text,
        .state = job->phase.word,
        .phase = job_state_name(job->state),
        .since = job->phase.word_since,
        .ended.ms = job_is_over(job) ? job->run.ended.ms : 0,
        .run = job->run.number,
        .epoch = job->epoch.number,
        .min_nodes = job->spec.min_nodes,
        .max_nodes = job->spec.max_nodes,
        .nproc = job->spec.nproc,
        .n_ps = job->spec.n_ps,
        .chief = job->spec.chief,
        .evaluator = job->spec.evaluator,
        /* A restart above the budget is charged until the verdict fails the job or takes the charge
         * back. */
        .restarts =
            job->budget.used < job->spec.max_restarts ? job->budget.used : job->spec.max_restarts,
        .restarts_left = job->budget.used < job->spec.max_restarts
                             ? job->spec.max_restarts - job->budget.used
                             : 0,
        .members = has_epoch(job) ? job->epoch.n_seats : 0,
        .nodes = job->n_nodes,
        .connected = job->n_connected,
        .ready = job->n_ready,
        .memory_bytes = job->memory_bytes,
    };
    for (uint32_t seat = 0; job->state == JOB_RUNNING && seat < job->epoch.n_seats; seat++) {
        ret->alone += job->epoch.seats[seat]->seat.is_alone;
    }
    if (job->state == JOB_RUNNING && roster_has_servers(job)) {
        ret->workers = job->epoch.n_seats - roster_extra_now(job);
        ret->workers_working = place_count(job);
        ret->workers_done = place_count_done(job);
    }
}

/* Fills in a job whose record is unreadable: only its name is known. */
static void show_aside(const struct tfe_id *name, struct msg_status_job *ret)
{
    *ret = (struct msg_status_job){.job = name->text,
                                   .state = STATE_SET_ASIDE,
                                   .phase = "set_aside",
                                   .min_nodes = 1,
                                   .max_nodes = 1,
                                   .nproc = 1};
}

int rdzv_view_job(const struct rdzv *r, const char *after, struct msg_status_job *ret_job)
{
    struct job key = {0};
    /* tree.h has no const variants */
    struct job_tree *tree = (struct job_tree *)(uintptr_t)&r->jobs;
    struct job *job = RB_MIN(job_tree, tree);
    if (after) {
        if (id_set(&key.name, after)) {
            return TFE_ENOENT;
        }
        job = RB_NFIND(job_tree, tree, &key);
        if (job && id_compare(&job->name, &key.name) == 0) {
            job = RB_NEXT(job_tree, tree, job);
        }
    }
    const struct tfe_id *aside = NULL;
    for (size_t i = 0; i < r->n_aside; i++) {
        const struct tfe_id *name = &r->aside[i];
        if ((!after || id_compare(name, &key.name) > 0) &&
            (!aside || id_compare(name, aside) < 0)) {
            aside = name;
        }
    }
    if (aside && (!job || id_compare(aside, &job->name) < 0)) {
        show_aside(aside, ret_job);
        return 0;
    }
    if (!job) {
        return TFE_ENOENT;
    }
    show_job(job, ret_job);
    return 0;
}

bool rdzv_job_opener(const struct rdzv *r, const char *name, uint8_t ret[PRINCIPAL_KEY_ID_BYTES])
{
    const struct job *job = job_find((struct rdzv *)(uintptr_t)r, name);
    if (!job || !job->opened_by.is_known) {
        return false;
    }
    memcpy(ret, job->opened_by.key_id, PRINCIPAL_KEY_ID_BYTES);
    return true;
}

int rdzv_find_job(const struct rdzv *r, const char *name, struct msg_status_job *ret_job)
{
    const struct job *job = job_find((struct rdzv *)(uintptr_t)r, name);
    if (job) {
        show_job(job, ret_job);
        return 0;
    }
    for (size_t i = 0; i < r->n_aside; i++) {
        if (strcmp(r->aside[i].text, name) == 0) {
            show_aside(&r->aside[i], ret_job);
            return 0;
        }
    }
    return TFE_ENOENT;
}

const char *rdzv_run_key(const struct rdzv *r, const char *name)
{
    const struct job *job = job_find(r, name);
    return job ? job->run.key.text : "";
}

struct rdzv_outcome rdzv_outcome(const struct rdzv *r, const char *name)
{
    const struct job *job = job_find(r, name);
    bool is_over = job && job_is_over(job);
    return (struct rdzv_outcome){
        .lingers = job && job->state == JOB_RUNNING && job->spec.linger && job->success.is_here,
        .is_used_up = is_over && job->state == JOB_FAILED && job->budget.is_used_up};
}

struct tfe_mono rdzv_view_late(const struct rdzv *r)
{
    return r->late_at;
}

/* The reason in the sentence of a job that is over: without the job's name, which stands beside it,
 * and without what its trainer had printed last. */
static void reason_of_end(const struct job *job, char ret[MSG_SENTENCE_MAX])
{
    const char *reason = job->run.sentence;
    const char *tail = strstr(reason, MSG_TAIL_HEAD);
    const size_t n_name = strlen(job->name.text);
    size_t n = tail ? (size_t)(tail - reason) : strlen(reason);
    struct text text;
    if (strncmp(reason, "job ", 4) == 0 && strncmp(reason + 4, job->name.text, n_name) == 0) {
        const size_t skip = strncmp(reason + 4 + n_name, " failed: ", 9) == 0 ? 9 : 1;
        reason += 4 + n_name + skip;
        n -= 4 + n_name + skip;
    }
    text_init(&text, ret, MSG_SENTENCE_MAX);
    text_add_head(&text, reason, n);
}

void rdzv_view_reason(const struct rdzv *r, struct msg_status_job *row, char room[MSG_SENTENCE_MAX])
{
    const struct job *job = job_find(r, row->job);
    struct tfe_mono until;
    room[0] = '\0';
    if (!job || job->state == JOB_SUCCEEDED) {
        return;
    }
    if (job_is_over(job)) {
        reason_of_end(job, room);
    } else if (job->failure.is_fault &&
               (job->state != JOB_RUNNING || !verdict_has_progressed(r, job))) {
        failure_describe(job, room);
        const bool is_final = verdict_is_final(r, job, &until);
        const int64_t ms = tfe_mono_sub(until, r->now);
        if (job->state != JOB_RUNNING && !is_final && !is_past(r, until) && ms > 0) {
            row->retry_ms = ms > MSG_DURATION_MAX_MS ? MSG_DURATION_MAX_MS : (uint32_t)ms;
        }
    }
    row->reason = room[0] != '\0' ? room : NULL;
}

void rdzv_view_waits(const struct rdzv *r, struct msg_status_job *row, char room[MSG_SENTENCE_MAX])
{
    const struct job *job = job_find(r, row->job);
    if (job) {
        row->waits = wait_describe(r, job, NULL, room, &row->waits_ms) ? room : NULL;
        row->waits_since_ms = row->waits ? wait_for_ms(r, job) : 0;
    }
}

static enum tfe_node_role role_of(const struct node *node)
{
    bool is_new = node->ready.host[0] == '\0';
    if (node->notice.is_leaving) {
        return ROLE_LEAVING;
    }
    if (!node_is_connected(node)) {
        return ROLE_SUSPECT;
    }
    if (node_evaluates(node) || (node_is_member(node) && has_epoch(node->job))) {
        return ROLE_MEMBER;
    }
    if (node_is_ready(node)) {
        return has_epoch(node->job) ? ROLE_SPARE : ROLE_WAITING;
    }
    return is_new && node->processes.n_standby_pids > 0 ? ROLE_IMPORTING : ROLE_PREPARING;
}

bool rdzv_is_member(const struct rdzv *r, const char *job_name, const char *id)
{
    struct job *job = job_find(r, job_name);
    const struct node *node = job ? node_find(job, id) : NULL;
    return node && node_is_member(node);
}

uint32_t rdzv_session_of(const struct rdzv *r, const char *job_name, const char *id)
{
    struct job *job = job_find(r, job_name);
    const struct node *node = job ? node_find(job, id) : NULL;
    return node ? node->session.number : NO_SESSION;
}

int rdzv_place_of(const struct rdzv *r, uint32_t session, struct rdzv_place *ret)
{
    const struct node *node = session < r->config.max_sessions ? r->by_session[session] : NULL;
    if (!node) {
        return TFE_ENOENT;
    }
    const struct job *job = node->job;
    const bool has_rank = node_is_member(node) && has_epoch(job);
    *ret = (struct rdzv_place){.job = job->name.text,
                               .node = node->id.text,
                               .name = node->name,
                               .run = job->run.number,
                               .epoch = job->epoch.number,
                               .has_rank = has_rank,
                               .rank = has_rank ? roster_rank(job, node->seat.index) : 0,
                               .n_members = job->epoch.n_seats};
    return 0;
}

void rdzv_view_node_waits(const struct rdzv *r, const char *job_name, struct msg_status_node *row,
                          char room[MSG_SENTENCE_MAX])
{
    struct job *job = job_find(r, job_name);
    const struct node *node = job ? node_find(job, row->node) : NULL;
    uint32_t ms;
    if (node && job->state == JOB_RUNNING) {
        row->waits = wait_describe(r, job, node, room, &ms) ? room : NULL;
    }
}

/* Sets the role and index of the node's first trainer, in jobs with roles. */
static void show_place(const struct node *node, struct msg_status_node *ret)
{
    const struct job *job = node->job;
    struct msg_row row;
    if (!roster_is_named(&job->spec) || !(ret->has_rank || node_evaluates(node))) {
        return;
    }
    ret->has_place = true;
    ret->task = TASK_EVALUATOR;
    if (ret->has_rank) {
        roster_name(job, ret->rank, &row);
        ret->task = row.role;
        ret->index = ret->rank - row.first;
    }
}

int rdzv_view_node(const struct rdzv *r, const char *job_name, const char *after,
                   struct msg_status_node *ret_node)
{
    struct job *job = job_find(r, job_name);
    if (!job) {
        return TFE_ENOENT;
    }
    struct node key = {0};
    struct node *node = RB_MIN(node_tree, &job->nodes);
    if (after) {
        if (id_set(&key.id, after)) {
            return TFE_ENOENT;
        }
        node = RB_NFIND(node_tree, &job->nodes, &key);
        if (node && id_compare(&node->id, &key.id) == 0) {
            node = RB_NEXT(node_tree, &job->nodes, node);
        }
    }
    while (node && node->is_gone) {
        node = RB_NEXT(node_tree, &job->nodes, node);
    }
    if (!node) {
        return TFE_ENOENT;
    }
    *ret_node = (struct msg_status_node){
        .node = node->id.text,
        .name = node->name,
        .role = role_of(node),
        .has_rank = node_is_member(node) && has_epoch(job),
        .rank = node_is_member(node) ? roster_rank(job, node->seat.index) : 0,
        .host = node->ready.host[0] ? node->ready.host : NULL,
        .port = node->ready.ports[0],
        .pid = node->pid,
        .processes = {.guard_pid = node->processes.guard_pid,
                      .trainer_pids = node->processes.trainer_pids,
                      .n_trainer_pids = node->processes.n_trainer_pids,
                      .standby_pids = node->processes.standby_pids,
                      .n_standby_pids = node->processes.n_standby_pids},
        .memory = node->ready.memory,
    };
    show_place(node, ret_node);
    return 0;
}

/* --- finding nodes by a name that a user has typed -------------------------------------------- */

enum meaning { MEANS_ID, MEANS_CONNECTED, MEANS_SUSPECT };

static bool is_meant(const struct node *node, const char *name, enum meaning how)
{
    if (node->is_gone || (how != MEANS_ID && node_is_connected(node) != (how == MEANS_CONNECTED))) {
        return false;
    }
    return strcmp(how == MEANS_ID ? node->id.text : node->name, name) == 0;
}

static void add_found(struct rdzv_found *ret, const struct job *job, const struct node *node)
{
    if (ret->n < RDZV_FOUND_MAX) {
        ret->v[ret->n].job = job->name.text;
        ret->v[ret->n].node = node->id.text;
        ret->v[ret->n].name = node->name;
        ret->v[ret->n].token_id = node->joined_by.is_known ? node->joined_by.key_id : NULL;
        ret->v[ret->n].session = node->session.number;
        ret->v[ret->n].has_rank = node_is_member(node);
        ret->v[ret->n].rank = node_is_member(node) ? roster_rank(job, node->seat.index) : 0;
    }
    ret->n++;
}

static void look(const struct rdzv *r, const struct principal *by, const char *name,
                 enum meaning how, struct rdzv_found *ret)
{
    /* tree.h has no const variants */
    struct job_tree *jobs = (struct job_tree *)(uintptr_t)&r->jobs;
    struct job *job;
    RB_FOREACH(job, job_tree, jobs)
    {
        struct node *node;
        if (principal_fault(by, MSG_DRAIN, job->name.text)) {
            continue;
        }
        RB_FOREACH(node, node_tree, &job->nodes)
        {
            if (is_meant(node, name, how)) {
                add_found(ret, job, node);
            }
        }
    }
}

int rdzv_node_of(const struct rdzv *r, uint32_t session, struct rdzv_found *ret)
{
    const struct node *node = session < r->config.max_sessions ? r->by_session[session] : NULL;
    *ret = (struct rdzv_found){.n = 0};
    if (!node) {
        return TFE_ENOENT;
    }
    add_found(ret, node->job, node);
    return 0;
}

int rdzv_find_node(const struct rdzv *r, const struct principal *by, const char *name,
                   struct rdzv_found *ret_found)
{
    struct rdzv_found found = {.n = 0};
    for (enum meaning how = MEANS_ID; how <= MEANS_SUSPECT && found.n == 0; how++) {
        look(r, by, name, how, &found);
    }
    if (found.n == 0) {
        return TFE_ENOENT;
    }
    *ret_found = found;
    return 0;
}
