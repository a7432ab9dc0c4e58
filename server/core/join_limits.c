/* server/core/join_limits.c: limits on joining: how many jobs and nodes there may be, per key and
 * in total, and which nodes were evicted.
 *
 * Jobs and nodes of one key are counted only if the total is above the key's limit, so that joins
 * below it cost nothing. */
#include "server/core/join_limits.h"

#include <string.h>

#include "common/text/text.h"
#include "server/core/core.h"
#include "server/core/job.h"
#include "server/core/persist.h"

struct holder sender_holder(const struct rdzv *r)
{
    struct holder holder = {.is_known = r->by != NULL};
    if (r->by) {
        memcpy(holder.key_id, r->by->origin, sizeof(holder.key_id));
    }
    return holder;
}

static bool is_same(const struct holder *a, const struct holder *b)
{
    return a->is_known && b->is_known && memcmp(a->key_id, b->key_id, sizeof(a->key_id)) == 0;
}

struct tfe_wall job_idle_since(const struct rdzv *r, const struct job *job)
{
    if (job_is_over(job)) {
        return job->run.ended;
    }
    return (struct tfe_wall){r->wall.ms - tfe_mono_sub(r->now, job->phase.waiting_since)};
}

/* Counts the jobs of this holder (NULL: all jobs), and finds the one that has been idle longest. */
static uint32_t count_jobs(struct rdzv *r, const struct holder *holder, struct job **ret_idle)
{
    uint32_t n = 0;
    struct job *job;
    *ret_idle = NULL;
    RB_FOREACH(job, job_tree, &r->jobs)
    {
        if (holder && !is_same(holder, &job->opened_by)) {
            continue;
        }
        n++;
        if (job_is_idle(r, job) &&
            (!*ret_idle || job_idle_since(r, job).ms < job_idle_since(r, *ret_idle).ms)) {
            *ret_idle = job;
        }
    }
    return n;
}

static uint32_t count_nodes(const struct rdzv *r, const struct holder *holder)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->config.max_sessions; i++) {
        n += r->by_session[i] && is_same(holder, &r->by_session[i]->joined_by) ? 1 : 0;
    }
    return n;
}

static bool has_too_many_jobs(struct rdzv *r)
{
    struct holder holder = sender_holder(r);
    struct job *idle;
    uint32_t limit = r->config.max_jobs_per_key;
    bool is_full = r->n_jobs >= CORE_JOBS_MAX;
    if (!is_full && (r->n_jobs < limit || !holder.is_known)) {
        return false;
    }
    if (count_jobs(r, is_full ? NULL : &holder, &idle) < limit && !is_full) {
        return false;
    }
    text_setf(r->sentence, sizeof(r->sentence),
              is_full ? "cannot open the job: the server holds %u jobs, its maximum%s%s"
                      : "cannot open the job: this token has opened %u jobs, its maximum "
                        "(--max-jobs-per-token)%s%s",
              is_full ? CORE_JOBS_MAX : limit,
              idle ? "; try again: this finished job is being forgotten: " : "",
              idle ? idle->name.text : "");
    if (idle) {
        persist_forget(r, idle);
    }
    return true;
}

/* Returns how many agents this key may have. If no number is configured, a key for some jobs only
 * gets a quarter of the number that the other keys leave, as for other resources (admission.h); a
 * key for every job belongs to the server's operator and has no limit. Counting the holder's agents
 * takes a scan, which is skipped while the total is too low for any limit to apply. */
static uint32_t max_nodes_of(const struct rdzv *r, const struct holder *holder)
{
    const uint32_t max = r->config.max_nodes;
    const bool is_scoped = r->by && r->by->scope && strcmp(r->by->scope, PRINCIPAL_EVERY_JOB) != 0;
    if (r->config.max_nodes_per_key != 0 || !is_scoped || r->n_leases < max / 8) {
        return r->config.max_nodes_per_key;
    }
    const uint32_t n_others = r->n_leases - count_nodes(r, holder);
    return max - n_others >= 8 ? (max - n_others) / 4 : 1;
}

bool join_limit_is_reached(struct rdzv *r, const struct job *job)
{
    struct holder holder = sender_holder(r);
    const uint32_t limit = max_nodes_of(r, &holder);
    if (r->n_leases >= r->config.max_nodes) {
        text_setf(r->sentence, sizeof(r->sentence),
                  "too many agents: the server accepts at most %u (raise its limit of open files)",
                  r->config.max_nodes);
        return true;
    }
    if (limit != 0 && r->n_leases >= limit && count_nodes(r, &holder) >= limit) {
        text_setf(r->sentence, sizeof(r->sentence),
                  "too many agents: this token has %u, its maximum (--max-agents-per-token)",
                  limit);
        return true;
    }
    return !job && has_too_many_jobs(r);
}

/* --- evicted nodes ---------------------------------------------------------------------------- */

const char evicted_sentence[] = "this node was evicted from its job by an operator";

void evicted_add(struct rdzv *r, const struct tfe_id *job, const struct tfe_id *node)
{
    r->evicted.v[r->evicted.n++ % EVICTED_MAX] = (struct evicted_node){.job = *job, .node = *node};
}

/* Returns the index of the entry, or EVICTED_MAX if there is none. */
static uint64_t find(const struct rdzv *r, const char *job, const char *node)
{
    struct evicted_node key;
    uint64_t n = r->evicted.n < EVICTED_MAX ? r->evicted.n : EVICTED_MAX;
    if (id_set(&key.job, job) || id_set(&key.node, node)) {
        return EVICTED_MAX;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (id_compare(&r->evicted.v[i].node, &key.node) == 0 &&
            id_compare(&r->evicted.v[i].job, &key.job) == 0) {
            return i;
        }
    }
    return EVICTED_MAX;
}

bool evicted_has(const struct rdzv *r, const char *job, const char *node)
{
    return find(r, job, node) < EVICTED_MAX;
}

void evicted_remove(struct rdzv *r, const char *job, const char *node)
{
    uint64_t at = find(r, job, node);
    if (at < EVICTED_MAX) {
        r->evicted.v[at].node.text[0] = '\0'; /* matches no node's id */
    }
}
