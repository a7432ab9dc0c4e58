/* server/scheduler/placement.c: entry point: an event is checked completely, then applied, then
 * decisions follow. */
#include "server/scheduler/placement.h"

#include <string.h>

#include "server/scheduler/placement_state.h"

int place_node_compare(const struct place_node *a, const struct place_node *b)
{
    return id_compare(&a->id, &b->id);
}

RB_GENERATE(place_tree, place_node, by_id, place_node_compare)

/* --- look-up ---------------------------------------------------------------------------------- */

static struct place_node *find_node(struct placement *p, const char *id)
{
    struct place_node key;
    return id_set(&key.id, id) == 0 ? RB_FIND(place_tree, &p->nodes, &key) : NULL;
}

static struct place_job *find_job(struct placement *p, const char *name, size_t *ret_at)
{
    for (size_t i = 0; name && i < p->n_jobs; i++) {
        if (strcmp(p->jobs[i]->name.text, name) == 0) {
            *ret_at = i;
            return p->jobs[i];
        }
    }
    return NULL;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void set_idle_exit(struct placement *p, struct place_node *node, int64_t ms)
{
    p->n_idle_exit -= node->idle_exit_ms > 0;
    node->idle_exit_ms = ms;
    p->n_idle_exit += node->idle_exit_ms > 0;
}

static void drop_node(struct placement *p, struct place_node *node)
{
    set_idle_exit(p, node, 0);
    node_set_here(p, node, false);
    node_unset(p, node);
    if (node->class != CLASS_NONE) {
        p->classes[node->class].n_nodes--;
    }
    RB_REMOVE(place_tree, &p->nodes, node);
    p->n_nodes--;
    mem_free(p->mem, node);
}

static int add_node(struct placement *p, const char *id, struct place_node **ret)
{
    struct place_node *node = mem_new(p->mem, 1, sizeof(*node));
    if (!node) {
        return TFE_ENOMEM;
    }
    if (id_set(&node->id, id)) {
        mem_free(p->mem, node);
        return TFE_EINVAL;
    }
    node->state = PLACE_LEAVING;
    node->class = CLASS_NONE;
    RB_INSERT(place_tree, &p->nodes, node);
    p->n_nodes++;
    *ret = node;
    return 0;
}

/* Handles a node that connects and reports its assignment. If it reports none, that is true: an
 * ASSIGN, or its own FREED, was lost with a connection. */
static int apply_node_connected(struct placement *p, const struct placement_event *event)
{
    char *labels = NULL;
    size_t n_bytes = 0;
    uint32_t class = CLASS_NONE;
    struct place_node *node = find_node(p, event->node);
    int error = labels_gather(p->mem, event->labels, event->n_labels, &labels, &n_bytes);
    if (error) {
        return error;
    }
    bool is_new = !node;
    if (is_new) {
        error = add_node(p, event->node, &node);
        if (error) {
            mem_free(p->mem, labels);
            return error;
        }
    }
    error = class_find(p, labels, n_bytes, &class);
    if (error) {
        if (is_new) {
            drop_node(p, node);
        }
        return error;
    }
    node_set_here(p, node, false);
    if (node->class != class) {
        /* leaves the list of its old class before it enters that of the new one */
        if (node->state == PLACE_FREE) {
            node_unset(p, node);
        }
        if (node->class != CLASS_NONE) {
            p->classes[node->class].n_nodes--;
        }
        node->class = class;
        p->classes[class].n_nodes++;
    }
    node_set_here(p, node, true);
    set_idle_exit(p, node, event->idle_exit_ms);
    node->floor = event->floor;
    if (event->assignment == 0) {
        if (node->state != PLACE_FREE) {
            node_set_free(p, node);
        }
    } else if (node->assignment != event->assignment) {
        node_unset(p, node);
        node->assignment = event->assignment;
        act_release_again(p, node, event->assignment);
    } else if (node->state == PLACE_LEAVING) {
        act_release_again(p, node, event->assignment);
    }
    return 0;
}

/* Handles labels that become known after the node has connected. */
static int apply_node_labels(struct placement *p, const struct placement_event *event)
{
    char *labels = NULL;
    size_t n_bytes = 0;
    uint32_t class = CLASS_NONE;
    struct place_node *node = find_node(p, event->node);
    if (!node || node->class == CLASS_NONE) {
        return TFE_ENOENT;
    }
    int error = labels_replace(p->mem, &p->classes[node->class], event->labels, event->n_labels,
                               &labels, &n_bytes);
    error = error ? error : class_find(p, labels, n_bytes, &class);
    if (error) {
        return error;
    }
    if (node->class != class) {
        node_set_class(p, node, class);
    }
    return 0;
}

static int apply_node_event(struct placement *p, const struct placement_event *event)
{
    struct place_node *node = find_node(p, event->node);
    if (!node) {
        return TFE_ENOENT;
    }
    if (event->type == PLACEMENT_NODE_REMOVED) {
        if (node->state == PLACE_ASSIGNED) {
            act_release(p, node, PLACEMENT_REMOVED);
        }
        node_set_removed(p, node);
        return 0;
    }
    if (event->type == PLACEMENT_NODE_WARNED) {
        node_set_warned(p, node, event->is_warned);
        return 0;
    }
    if (event->type == PLACEMENT_NODE_FREED) {
        /* Repeated for an earlier assignment, or sent on a connection that has ended. */
        if (!node->is_here || node->assignment == 0 || node->assignment != event->assignment) {
            return TFE_ENOENT;
        }
        node_set_free(p, node);
    } else if (event->type == PLACEMENT_NODE_GONE || node->state == PLACE_FREE) {
        drop_node(p, node);
    } else {
        node_set_here(p, node, false);
    }
    return 0;
}

static int apply_restored(struct placement *p, const struct placement_event *event)
{
    size_t at = 0;
    struct place_job *job = find_job(p, event->job, &at);
    struct place_node *node = NULL;
    if (event->assignment == 0 || (unsigned)event->task >= PLACEMENT_TASKS) {
        return TFE_EINVAL;
    }
    if (!job) {
        return TFE_ENOENT;
    }
    if (find_node(p, event->node)) {
        return TFE_EEXIST;
    }
    int error = add_node(p, event->node, &node);
    if (error) {
        return error;
    }
    node_set_assigned(p, node, job, event->task, event->assignment);
    if (event->assignment > p->last_assignment) {
        p->last_assignment = event->assignment;
    }
    return 0;
}

/* --- jobs ------------------------------------------------------------------------------------- */

static bool is_valid(const struct placement_options *options)
{
    uint64_t min = 0;
    for (unsigned task = 0; options && task < PLACEMENT_TASKS; task++) {
        if (options->min[task] > options->max[task] || options->max[task] > MSG_NODES_MAX ||
            (task != TASK_WORKER && options->min[task] != options->max[task])) {
            return false;
        }
        min += options->min[task];
    }
    return options && min > 0 && options->priority <= PLACEMENT_PRIORITY_MAX;
}

static bool is_before(const struct place_job *a, const struct place_job *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->age < b->age;
}

static void remove_job(struct placement *p, size_t at)
{
    p->n_jobs--;
    memmove(p->jobs + at, p->jobs + at + 1, (p->n_jobs - at) * sizeof(struct place_job *));
}

/* Inserts the job in order. Precondition: the array has space for it. */
static void insert_job(struct placement *p, struct place_job *job)
{
    size_t at = p->n_jobs++;
    for (; at > 0 && is_before(job, p->jobs[at - 1]); at--) {
        p->jobs[at] = p->jobs[at - 1];
    }
    p->jobs[at] = job;
}

static void free_job(const struct placement *p, struct place_job *job)
{
    mem_free(p->mem, job->labels);
    mem_free(p->mem, job);
}

static int new_job(struct placement *p, const char *name, struct place_job **ret)
{
    if (mem_reserve(p->mem, &p->jobs, &p->cap_jobs, p->n_jobs + 1, sizeof(struct place_job *))) {
        return TFE_ENOMEM;
    }
    struct place_job *job = mem_new(p->mem, 1, sizeof(*job));
    if (!job) {
        return TFE_ENOMEM;
    }
    if (id_set(&job->name, name)) {
        mem_free(p->mem, job);
        return TFE_EINVAL;
    }
    TAILQ_INIT(&job->nodes);
    job->quotas = quotas_of(p, name);
    job->state = PLACEMENT_JOB_QUEUED;
    job->since = p->now;
    *ret = job;
    return 0;
}

static int apply_job_options(struct placement *p, const struct placement_event *event)
{
    size_t at = 0;
    const struct placement_options *options = event->options;
    bool is_submitted = event->type == PLACEMENT_JOB_SUBMITTED;
    struct place_job *job = find_job(p, event->job, &at);
    bool is_new = !job;
    if (!is_valid(options)) {
        return TFE_EINVAL;
    }
    if (is_submitted ? job && !job->is_over : !job || job->is_over) {
        return is_submitted ? TFE_EEXIST : TFE_ENOENT;
    }
    int error = is_new ? new_job(p, event->job, &job) : 0;
    if (error) {
        return error;
    }
    error = job_set_labels(p, job, options);
    if (error) {
        if (is_new) {
            free_job(p, job);
        }
        return error;
    }
    if (!is_new) {
        remove_job(p, at);
    }
    job->priority = options->priority;
    job->preempt = options->preempt;
    job->is_suspended = options->is_suspended;
    memcpy(job->min, options->min, sizeof(job->min));
    memcpy(job->max, options->max, sizeof(job->max));
    if (is_submitted) {
        job->age = ++p->last_age;
        job->is_over = job->keeps_nodes = false;
        job->gain_milli = 1000;
    }
    insert_job(p, job);
    return 0;
}

static int apply_job_event(struct placement *p, const struct placement_event *event)
{
    size_t at = 0;
    struct place_job *job = find_job(p, event->job, &at);
    if (!job) {
        return TFE_ENOENT;
    }
    if (event->type == PLACEMENT_JOB_OVER) {
        job->is_over = true;
        job->keeps_nodes = event->keeps_nodes;
    } else if (event->type == PLACEMENT_JOB_GAIN) {
        if (event->gain_milli > 1000) {
            return TFE_EINVAL;
        }
        job->gain_milli = event->gain_milli > 0 ? event->gain_milli : 1;
    } else if (!job->is_over || !TAILQ_EMPTY(&job->nodes)) {
        return TFE_ESTATE;
    } else {
        remove_job(p, at);
        free_job(p, job);
    }
    return 0;
}

/* --- entry point ------------------------------------------------------------------------------ */

static int apply(struct placement *p, const struct placement_event *event)
{
    switch (event->type) {
    case PLACEMENT_NODE_CONNECTED:
        return apply_node_connected(p, event);
    case PLACEMENT_NODE_LABELS:
        return apply_node_labels(p, event);
    case PLACEMENT_NODE_LOST:
    case PLACEMENT_NODE_GONE:
    case PLACEMENT_NODE_FREED:
    case PLACEMENT_NODE_REMOVED:
    case PLACEMENT_NODE_WARNED:
        return apply_node_event(p, event);
    case PLACEMENT_RESTORED:
        return apply_restored(p, event);
    case PLACEMENT_JOB_SUBMITTED:
    case PLACEMENT_JOB_CHANGED:
        return apply_job_options(p, event);
    case PLACEMENT_JOB_GAIN:
    case PLACEMENT_JOB_OVER:
    case PLACEMENT_JOB_FORGOTTEN:
        return apply_job_event(p, event);
    case PLACEMENT_QUOTA:
        return quota_set(p, event->pattern, event->nodes);
    case PLACEMENT_TICK:
        return 0;
    }
    return TFE_EINVAL;
}

int placement_step(struct placement *p, const struct placement_event *event,
                   struct placement_actions *ret)
{
    /* A step has at most one action per node and per job, one more for a node that connects, and
     * one more for a job that gives up. */
    size_t max_actions = p->n_nodes + p->n_jobs + 4;
    if (mem_reserve(p->mem, &p->actions, &p->cap_actions, max_actions, sizeof(*p->actions)) ||
        mem_reserve(p->mem, &p->picked, &p->cap_picked, max_actions, sizeof(struct place_node *))) {
        return TFE_ENOMEM;
    }
    p->n_actions = 0;
    p->now = tfe_mono_max(p->now, event->now);
    int error = apply(p, event);
    if (error) {
        return error;
    }
    struct tfe_mono deadline = event->is_more_to_come ? p->now : decide(p);
    *ret = (struct placement_actions){.v = p->actions, .n = p->n_actions, .deadline = deadline};
    return 0;
}

struct placement *placement_new(const struct tfe_mem *mem, const struct placement_config *config,
                                uint64_t last_assignment)
{
    struct placement *p = mem_new(mem, 1, sizeof(*p));
    if (!p) {
        return NULL;
    }
    p->mem = mem;
    p->config = *config;
    p->last_assignment = last_assignment;
    RB_INIT(&p->nodes);
    for (uint32_t c = 0; c < PLACEMENT_CLASSES_MAX; c++) {
        TAILQ_INIT(&p->classes[c].free);
    }
    return p;
}

void placement_free(struct placement *p)
{
    if (!p) {
        return;
    }
    while (!RB_EMPTY(&p->nodes)) {
        drop_node(p, RB_ROOT(&p->nodes));
    }
    for (size_t i = 0; i < p->n_jobs; i++) {
        free_job(p, p->jobs[i]);
    }
    for (uint32_t c = 0; c < PLACEMENT_CLASSES_MAX; c++) {
        mem_free(p->mem, p->classes[c].labels);
    }
    mem_free(p->mem, p->jobs);
    mem_free(p->mem, p->actions);
    mem_free(p->mem, p->picked);
    mem_free(p->mem, p);
}

size_t placement_jobs(const struct placement *p)
{
    return p->n_jobs;
}

void placement_job_view(const struct placement *p, size_t at, struct placement_view *ret)
{
    const struct place_job *job = p->jobs[at];
    *ret = (struct placement_view){.job = job->name.text,
                                   .state = job->state,
                                   .since = job->since,
                                   .priority = job->priority,
                                   .lacks = job->lacks,
                                   .releasing = job->n_leaving,
                                   .is_too_large = job->is_too_large,
                                   .max_min = job->max_min};
    const struct place_quota *q = quota_of_wait(p, job);
    if (q) {
        ret->quota = q->pattern;
        ret->quota_nodes = q->nodes;
        ret->quota_lacks = job->is_above ? 0 : job->share;
    }
    memcpy(ret->held, job->held, sizeof(ret->held));
}

/* --- demand of the jobs and supply of the pool ------------------------------------------------ */

const char *placement_label(const struct placement *p, size_t at, enum tfe_task task,
                            size_t *cursor)
{
    const struct place_job *job = p->jobs[at];
    while (*cursor < job->n_bytes) {
        const char *label = job->labels + *cursor;
        *cursor += strlen(label + 1) + 2;
        if ((uint8_t)label[0] >> task & 1) {
            return label + 1;
        }
    }
    return NULL;
}

bool placement_may_have(const struct placement *p, size_t at, enum tfe_task task, uint32_t class)
{
    return p->jobs[at]->kinds[class] >> task & 1;
}

size_t placement_demand(const struct placement *p, size_t at,
                        struct placement_demand ret[PLACEMENT_TASKS])
{
    const struct place_job *job = p->jobs[at];
    size_t n = 0;
    for (unsigned task = 0; task < PLACEMENT_TASKS && job_is_active(job); task++) {
        const uint32_t held = job->held[task];
        uint32_t max = job->hides || held > job->min[task] ? held : job->min[task];
        if (task == TASK_WORKER) {
            max += job->may_add;
        }
        if (job->max[task] > 0) {
            ret[n++] = (struct placement_demand){
                .job = job->name.text,
                .task = (enum tfe_task)task,
                .min = job->min[task] < max ? job->min[task] : max,
                .max = max,
                .held = held,
            };
        }
    }
    return n;
}

bool placement_supply(const struct placement *p, uint32_t class, struct placement_supply *ret)
{
    const struct place_class *c = &p->classes[class];
    if (!c->labels) {
        return false;
    }
    *ret = (struct placement_supply){
        .labels = c->labels, .n_bytes = c->n_bytes, .here = c->n_here, .idle = c->n_free};
    return true;
}
