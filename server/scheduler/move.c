/* server/scheduler/move.c: changes of a node's assignment, with all counters and lists. */
#include "server/scheduler/placement_state.h"

static struct place_class *class_of(struct placement *p, const struct place_node *node)
{
    return node->class == CLASS_NONE ? NULL : &p->classes[node->class];
}

/* Returns true if the node counts as part of the pool. */
static bool is_of_use(const struct place_node *node)
{
    return node->is_here && !node->is_removed && !node->is_warned;
}

/* Returns true if the node is in its class's list of free nodes. */
static bool is_on_offer(const struct place_node *node)
{
    return node->state == PLACE_FREE && !node->is_warned;
}

/* Adds the node to the counters of its class and state, or (by is -1 as unsigned) removes it. */
static void count(struct placement *p, const struct place_node *node, uint32_t by)
{
    struct place_class *class = class_of(p, node);
    if (!class || !is_of_use(node)) {
        return;
    }
    class->n_here += by;
    class->n_free += node->state == PLACE_FREE ? by : 0;
    class->n_coming += node->state == PLACE_LEAVING ? by : 0;
    if (node->state == PLACE_ASSIGNED) {
        uint32_t *here =
            node->task == TASK_WORKER ? node->job->workers_here : node->job->others_here;
        here[node->class] += by;
    }
}

/* Adds (by is 1) or removes (by is -1 as unsigned) an assigned node from its job's counters. A
 * warned node does not count for a quota, because its replacement may arrive at once. */
static void count_assigned(struct placement *p, const struct place_node *node, uint32_t by)
{
    if (node_is_held(node)) {
        node->job->held[node->task] += by;
        quota_count(p, node->job, by, 0);
    } else if (node->state == PLACE_ASSIGNED) {
        node->job->warned[node->task] += by;
    }
}

void node_set_here(struct placement *p, struct place_node *node, bool is_here)
{
    count(p, node, UINT32_MAX);
    node->is_here = is_here;
    count(p, node, 1);
}

/* Inserts a free node in order of its idle time, the longest first. */
static void free_insert(struct place_class *class, struct place_node *node)
{
    struct place_node *before = TAILQ_LAST(&class->free, place_list);
    while (before && tfe_mono_before(node->idle_since, before->idle_since)) {
        before = TAILQ_PREV(before, place_list, entry);
    }
    if (before) {
        TAILQ_INSERT_AFTER(&class->free, before, node, entry);
    } else {
        TAILQ_INSERT_HEAD(&class->free, node, entry);
    }
}

void node_set_class(struct placement *p, struct place_node *node, uint32_t class)
{
    struct place_class *from = class_of(p, node);
    struct place_class *to = &p->classes[class];
    count(p, node, UINT32_MAX);
    if (is_on_offer(node)) {
        TAILQ_REMOVE(&from->free, node, entry);
        free_insert(to, node);
    }
    from->n_nodes--;
    node->class = class;
    to->n_nodes++;
    count(p, node, 1);
}

void node_set_removed(struct placement *p, struct place_node *node)
{
    if (node->state == PLACE_FREE) {
        node_unset(p, node);
    }
    count(p, node, UINT32_MAX);
    node->is_removed = true;
}

void node_set_warned(struct placement *p, struct place_node *node, bool is_warned)
{
    count(p, node, UINT32_MAX);
    if (is_on_offer(node)) {
        TAILQ_REMOVE(&class_of(p, node)->free, node, entry);
    }
    count_assigned(p, node, UINT32_MAX);
    node->is_warned = is_warned;
    count_assigned(p, node, 1);
    if (is_on_offer(node)) {
        free_insert(class_of(p, node), node);
    }
    count(p, node, 1);
}

void node_unset(struct placement *p, struct place_node *node)
{
    count(p, node, UINT32_MAX);
    if (is_on_offer(node)) {
        TAILQ_REMOVE(&class_of(p, node)->free, node, entry);
    } else if (node->job) {
        TAILQ_REMOVE(&node->job->nodes, node, entry);
        count_assigned(p, node, UINT32_MAX);
        if (node->state == PLACE_LEAVING) {
            node->job->n_leaving--;
            quota_count(p, node->job, UINT32_MAX, UINT32_MAX);
        }
    }
    node->job = NULL;
    node->assignment = 0;
    node->state = PLACE_LEAVING;
    count(p, node, 1);
}

void node_set_free(struct placement *p, struct place_node *node)
{
    node_unset(p, node);
    if (node->is_removed) {
        return;
    }
    count(p, node, UINT32_MAX);
    node->state = PLACE_FREE;
    node->idle_since = p->now;
    if (is_on_offer(node)) {
        TAILQ_INSERT_TAIL(&class_of(p, node)->free, node, entry);
    }
    count(p, node, 1);
}

void node_set_assigned(struct placement *p, struct place_node *node, struct place_job *job,
                       enum tfe_task task, uint64_t assignment)
{
    node_unset(p, node);
    count(p, node, UINT32_MAX);
    node->state = PLACE_ASSIGNED;
    node->job = job;
    node->task = task;
    node->assignment = assignment;
    count_assigned(p, node, 1);
    TAILQ_INSERT_TAIL(&job->nodes, node, entry);
    count(p, node, 1);
}

void node_set_leaving(struct placement *p, struct place_node *node)
{
    count(p, node, UINT32_MAX);
    if (node->state == PLACE_ASSIGNED) {
        count_assigned(p, node, UINT32_MAX);
        node->job->n_leaving++;
        quota_count(p, node->job, 1, 1);
    }
    node->state = PLACE_LEAVING;
    count(p, node, 1);
}

static void act(struct placement *p, const struct placement_action *action)
{
    p->actions[p->n_actions++] = *action;
}

void act_assign(struct placement *p, struct place_node *node, struct place_job *job,
                enum tfe_task task)
{
    node_set_assigned(p, node, job, task, ++p->last_assignment);
    act(p, &(struct placement_action){.type = PLACEMENT_ASSIGN,
                                      .node = node->id.text,
                                      .job = job->name.text,
                                      .assignment = node->assignment,
                                      .task = task});
}

void act_release(struct placement *p, struct place_node *node, enum placement_reason reason)
{
    node_set_leaving(p, node);
    act(p, &(struct placement_action){.type = PLACEMENT_RELEASE,
                                      .node = node->id.text,
                                      .job = node->job ? node->job->name.text : "",
                                      .assignment = node->assignment,
                                      .task = node->task,
                                      .reason = reason});
}

void act_leave(struct placement *p, struct place_node *node)
{
    node_set_removed(p, node);
    act(p, &(struct placement_action){.type = PLACEMENT_LEAVE,
                                      .node = node->id.text,
                                      .job = "",
                                      .reason = PLACEMENT_REMOVED});
}

void act_waits(struct placement *p, const struct place_job *job)
{
    act(p, &(struct placement_action){.type = PLACEMENT_WAITS, .node = "", .job = job->name.text});
}

void act_release_again(struct placement *p, const struct place_node *node, uint64_t assignment)
{
    act(p,
        &(struct placement_action){.type = PLACEMENT_RELEASE,
                                   .node = node->id.text,
                                   .job = node->job ? node->job->name.text : "",
                                   .assignment = assignment,
                                   .task = node->task,
                                   .reason = node->job ? PLACEMENT_NO_REASON : PLACEMENT_UNKNOWN});
}
