/* server/scheduler/quota.c: quotas: a limit for the number of nodes that all jobs matching a
 * pattern have in total. */
#include <string.h>

#include "common/message/principal.h"
#include "server/scheduler/placement_state.h"

_Static_assert(PLACEMENT_QUOTAS_MAX <= 64, "quotas fit a mask");

struct place_quota *quota_next(struct placement *p, uint64_t *set)
{
    struct place_quota *q = *set ? &p->quotas[__builtin_ctzll(*set)] : NULL;
    *set &= *set - 1;
    return q;
}

static bool is_of(const struct place_quota *q, const char *job)
{
    const struct principal of = {.role = PRINCIPAL_ADMIN, .scope = q->pattern};
    return !principal_fault(&of, MSG_SUBMIT, job);
}

uint64_t quotas_of(const struct placement *p, const char *job)
{
    uint64_t set = 0;
    for (unsigned i = 0; i < PLACEMENT_QUOTAS_MAX; i++) {
        set |= (uint64_t)is_of(&p->quotas[i], job) << i;
    }
    return set;
}

/* Recounts a quota whose pattern has changed: which jobs match it, and what they have. */
static void begin(struct placement *p, unsigned at)
{
    struct place_quota *q = &p->quotas[at];
    q->used = q->leaving = 0;
    for (size_t i = 0; i < p->n_jobs; i++) {
        struct place_job *job = p->jobs[i];
        const bool is_its = is_of(q, job->name.text);
        job->quotas &= ~((uint64_t)1 << at);
        job->quotas |= (uint64_t)is_its << at;
        job->short_of &= job->quotas;
        q->used += is_its ? task_sum(job->held) + job->n_leaving : 0;
        q->leaving += is_its ? job->n_leaving : 0;
    }
}

int quota_set(struct placement *p, const char *pattern, uint32_t nodes)
{
    unsigned at = 0;
    unsigned unused = PLACEMENT_QUOTAS_MAX;
    const size_t n = pattern ? strlen(pattern) : 0;
    if (n == 0 || n > MSG_SCOPE_MAX) {
        return TFE_EINVAL;
    }
    while (at < PLACEMENT_QUOTAS_MAX && strcmp(p->quotas[at].pattern, pattern) != 0) {
        unused = p->quotas[at].pattern[0] == '\0' && unused > at ? at : unused;
        at++;
    }
    if (at == PLACEMENT_QUOTAS_MAX) {
        at = unused;
        if (nodes == 0 || at == PLACEMENT_QUOTAS_MAX) {
            return nodes == 0 ? 0 : TFE_EFULL;
        }
    }
    memcpy(p->quotas[at].pattern, nodes > 0 ? pattern : "", nodes > 0 ? n + 1 : 1);
    p->quotas[at].nodes = nodes;
    begin(p, at);
    return 0;
}

void quota_count(struct placement *p, const struct place_job *job, uint32_t by, uint32_t leaving)
{
    uint64_t set = job->quotas;
    struct place_quota *q;
    while ((q = quota_next(p, &set)) != NULL) {
        q->used += by;
        q->leaving += leaving;
    }
}

uint32_t quota_lacks(const struct place_quota *q, uint32_t n, bool soon)
{
    const uint64_t all = (uint64_t)q->used - (soon ? q->leaving : 0) + q->kept + n;
    return all > q->nodes ? (uint32_t)(all - q->nodes) : 0;
}

uint64_t quotas_below(struct placement *p, uint64_t set, uint32_t n, bool soon)
{
    uint64_t below = 0;
    struct place_quota *q;
    while ((q = quota_next(p, &set)) != NULL) {
        below |= (uint64_t)(quota_lacks(q, n, soon) > 0) << (q - p->quotas);
    }
    return below;
}

void quotas_keep(struct placement *p, uint64_t set, uint32_t n)
{
    struct place_quota *q;
    while ((q = quota_next(p, &set)) != NULL) {
        q->kept += n;
    }
}

const struct place_quota *quota_smallest(const struct placement *p, uint64_t set)
{
    const struct place_quota *smallest = NULL;
    for (; set != 0; set &= set - 1) {
        const struct place_quota *q = &p->quotas[__builtin_ctzll(set)];
        smallest = smallest && smallest->nodes <= q->nodes ? smallest : q;
    }
    return smallest;
}

const struct place_quota *quota_of_wait(const struct placement *p, const struct place_job *job)
{
    return quota_smallest(p, job->is_above ? job->quotas : job->short_of);
}

struct placement_quota placement_quota(const struct placement *p, const char *job)
{
    const struct place_quota *q = quota_smallest(p, quotas_of(p, job));
    return q ? (struct placement_quota){q->pattern, q->nodes} : (struct placement_quota){NULL, 0};
}

/* --- demand of machines ----------------------------------------------------------------------- */

/* Sums of one quota, while the jobs are visited in order. */
struct tally {
    int64_t all;   /* nodes that its jobs have */
    int64_t firm;  /* nodes within minima, which only a job with preempt may take */
    int64_t high;  /* nodes within minima, of jobs of at least this priority */
    int64_t above; /* nodes beyond the minimum, of jobs of higher priority */
    int64_t asked; /* nodes that waiting jobs are to get */
};

/* Returns how many nodes the job keeps, whichever job of its priority needs nodes. */
static uint32_t firm_of(const struct place_job *job)
{
    const uint32_t held = task_sum(job->held);
    return job->is_over ? held : task_sum(job->min) - job_lacks(job);
}

static void add(const struct place_job *job, struct tally t[], int64_t all, int64_t firm,
                int64_t high, int64_t above)
{
    for (uint64_t set = job->quotas; set != 0; set &= set - 1) {
        struct tally *of = &t[__builtin_ctzll(set)];
        of->all += all;
        of->firm += firm;
        of->high += high;
        of->above += above;
    }
}

static void request(struct tally t[], uint64_t set, uint32_t n)
{
    for (; set != 0; set &= set - 1) {
        t[__builtin_ctzll(set)].asked += n;
    }
}

/* Computes the job's demand for its minimum: nodes that other jobs of the same or lower priority
 * have beyond their minima may become its own. */
static void share_minimum(const struct placement *p, struct place_job *job, struct tally t[])
{
    const uint32_t n = job_is_active(job) ? job_lacks(job) : 0;
    const uint32_t firm = firm_of(job);
    uint64_t lacking = 0;
    int64_t max = UINT32_MAX;
    for (uint64_t set = job->quotas; set != 0; set &= set - 1) {
        const unsigned i = (unsigned)__builtin_ctzll(set);
        const int64_t left = (int64_t)p->quotas[i].nodes - (job->preempt ? t[i].high : t[i].firm) -
                             t[i].above - t[i].asked;
        lacking |= (uint64_t)(left < n) << i;
        max = left + firm < max ? left + firm : max;
    }
    job->max_min = max > 0 ? (uint32_t)max : 0;
    job->hides = n > 0 && lacking != 0;
    if (!job->is_above) {
        request(t, job->hides ? lacking : job->quotas, n);
    }
}

static void share_growth(const struct placement *p, struct place_job *job, struct tally t[])
{
    const uint32_t min = job->min[TASK_WORKER];
    const uint32_t held = job->held[TASK_WORKER];
    const uint32_t from = held > min ? held : min;
    int64_t n = job->max[TASK_WORKER] > from ? job->max[TASK_WORKER] - from : 0;
    for (uint64_t set = job->quotas; set != 0; set &= set - 1) {
        const unsigned i = (unsigned)__builtin_ctzll(set);
        const int64_t left = (int64_t)p->quotas[i].nodes - t[i].all - t[i].asked;
        n = left < n ? left : n;
    }
    job->may_add = n > 0 && job_is_active(job) && !job->hides ? (uint32_t)n : 0;
    request(t, job->quotas, job->may_add);
}

void quotas_share_out(struct placement *p)
{
    struct tally t[PLACEMENT_QUOTAS_MAX] = {{0}};
    for (size_t i = 0; i < p->n_jobs; i++) {
        add(p->jobs[i], t, task_sum(p->jobs[i]->held), firm_of(p->jobs[i]), 0, 0);
    }
    for (size_t i = 0, end = 0; i < p->n_jobs; i = end) {
        for (; end < p->n_jobs && p->jobs[end]->priority == p->jobs[i]->priority; end++) {
            add(p->jobs[end], t, 0, 0, firm_of(p->jobs[end]), 0);
        }
        for (size_t k = i; k < end; k++) {
            share_minimum(p, p->jobs[k], t);
        }
        for (size_t k = i; k < end; k++) {
            add(p->jobs[k], t, 0, 0, 0, (int64_t)task_sum(p->jobs[k]->held) - firm_of(p->jobs[k]));
        }
    }
    for (size_t i = 0; i < p->n_jobs; i++) {
        share_growth(p, p->jobs[i], t);
    }
}
