/* server/ctl/status.c: tfe-ctl status: jobs and their nodes, for people or as JSON. */
#include "server/ctl/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/id.h"
#include "common/base/json.h"
#include "common/net/heap.h"
#include "server/ctl/request.h"
#include "server/ctl/snapshot.h"
#include "server/ctl/table.h"
#include "server/ctl/verb.h"

/* --- the answer --- */

static void on_begin(void *ctx)
{
    snapshot_done(ctx);
}

static enum request_progress on_reply(void *ctx, const struct tfe_msg *msg)
{
    int err = TFE_ESTATE;
    if (msg->type == MSG_STATUS_JOB) {
        err = snapshot_add_job(ctx, &msg->u.status_job);
    } else if (msg->type == MSG_STATUS_NODE) {
        err = snapshot_add_node(ctx, &msg->u.status_node);
    } else if (msg->type == MSG_STATUS_END) {
        return REQUEST_DONE;
    }
    if (err == 0) {
        return REQUEST_MORE;
    }
    return err == TFE_ENOMEM ? REQUEST_FAILED : REQUEST_STRANGE;
}

/* "10.0.0.5:4711", "[2001:db8::1]:4711", or NULL where the node has not told yet. */
static const char *format_address(const struct msg_status_node *node, char ret[TFE_HOST_MAX + 10])
{
    if (node->host == NULL || node->host[0] == '\0') {
        return NULL;
    }
    bool v6 = strchr(node->host, ':') != NULL;
    (void)snprintf(ret, TFE_HOST_MAX + 10, "%s%.*s%s:%u", v6 ? "[" : "", TFE_HOST_MAX, node->host,
                   v6 ? "]" : "", (unsigned)node->port);
    return ret;
}

/* --- for people --- */

int status_add_cells(struct table *t, const struct msg_status_node *node)
{
    char rank[16] = "-";
    char pid[16] = "-";
    char address[TFE_HOST_MAX + 10];
    const char *at = format_address(node, address);
    if (node->has_rank) {
        (void)snprintf(rank, sizeof(rank), "%u", (unsigned)node->rank);
    }
    if (node->pid != 0) {
        (void)snprintf(pid, sizeof(pid), "%u", (unsigned)node->pid);
    }
    const char *const cells[] = {
        node->name, node->node, msg_role_name(node->role), rank, at != NULL ? at : "-", pid};
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        if (table_add(t, cells[i]) != 0) {
            return TFE_ENOMEM;
        }
    }
    return 0;
}

static int print_nodes(const struct snapshot *s, const struct snapshot_job *job)
{
    static const char *const heads[] = {"NAME", "NODE", "ROLE", "RANK", "ADDRESS", "PID"};
    struct table t = {.n_columns = sizeof(heads) / sizeof(heads[0])};
    int err = 0;
    for (size_t i = 0; err == 0 && i < t.n_columns; i++) {
        err = table_add(&t, heads[i]);
    }
    for (size_t i = 0; err == 0 && i < job->n_nodes; i++) {
        err = status_add_cells(&t, &s->nodes[job->first_node + i]);
    }
    if (err == 0) {
        table_print(&t, 2, stdout);
    }
    table_done(&t);
    return err;
}

static int print_table(const struct snapshot *s)
{
    if (s->n_jobs == 0) {
        (void)puts("no jobs");
    }
    for (size_t i = 0; i < s->n_jobs; i++) {
        const struct msg_status_job *job = &s->jobs[i].job;
        (void)printf("%sjob %s: %s, run %u, epoch %llu, nodes %u:%u\n", i > 0 ? "\n" : "", job->job,
                     job->state, (unsigned)job->run, (unsigned long long)job->epoch,
                     (unsigned)job->min_nodes, (unsigned)job->max_nodes);
        if (s->jobs[i].n_nodes > 0 && print_nodes(s, &s->jobs[i]) != 0) {
            return TFE_ENOMEM;
        }
    }
    return 0;
}

/* --- for programs: the fields are a contract (DESIGN 9) --- */

static void write_pids(struct json *j, const char *key, const uint32_t *pids, size_t n)
{
    json_begin_array(j, key);
    for (size_t i = 0; i < n; i++) {
        json_u64(j, NULL, pids[i]);
    }
    json_end_array(j);
}

void status_write_node(struct json *j, const struct msg_status_node *node, const char *job)
{
    char address[TFE_HOST_MAX + 10];
    json_begin_object(j, NULL);
    if (job != NULL) {
        json_text(j, "job", job);
    }
    json_text(j, "node", node->node);
    json_text(j, "name", node->name);
    json_text(j, "role", msg_role_name(node->role));
    if (node->has_rank) {
        json_u64(j, "rank", node->rank);
    } else {
        json_add_null(j, "rank");
    }
    json_text(j, "address", format_address(node, address));
    json_u64(j, "pid", node->pid);
    json_u64(j, "guard_pid", node->processes.guard_pid);
    write_pids(j, "trainer_pids", node->processes.trainer_pids, node->processes.n_trainer_pids);
    write_pids(j, "standby_pids", node->processes.standby_pids, node->processes.n_standby_pids);
    json_end_object(j);
}

static void write_job(struct json *j, const struct snapshot *s, const struct snapshot_job *at)
{
    json_begin_object(j, NULL);
    json_text(j, "job", at->job.job);
    json_u64(j, "run", at->job.run);
    json_text(j, "state", at->job.state);
    json_u64(j, "epoch", at->job.epoch);
    json_u64(j, "min", at->job.min_nodes);
    json_u64(j, "max", at->job.max_nodes);
    json_begin_array(j, "nodes");
    for (size_t i = 0; i < at->n_nodes; i++) {
        status_write_node(j, &s->nodes[at->first_node + i], NULL);
    }
    json_end_array(j);
    json_end_object(j);
}

static int print_json(const struct snapshot *s)
{
    struct json j;
    const char *text;
    size_t n;
    json_init(&j, &heap_mem);
    json_begin_object(&j, NULL);
    json_begin_array(&j, "jobs");
    for (size_t i = 0; i < s->n_jobs; i++) {
        write_job(&j, s, &s->jobs[i]);
    }
    json_end_array(&j);
    json_end_object(&j);
    int err = json_finish(&j, &text, &n);
    if (err == 0) {
        (void)fwrite(text, 1, n, stdout);
        (void)putchar('\n');
    }
    json_done(&j);
    return err;
}

/* --- the verb --- */

int status_ask(const struct ctl_settings *settings, const char *job, struct snapshot *ret)
{
    struct tfe_msg question = {.type = MSG_STATUS, .u.status = {.job = job}};
    struct request request = {.question = &question,
                              .roles = {TOKEN_OBSERVER, TOKEN_ADMIN},
                              .n_roles = 2,
                              .begin = on_begin,
                              .reply = on_reply,
                              .ctx = ret};
    if (job != NULL && !request_job_is_sound(job)) {
        return CTL_USAGE;
    }
    return request_run(settings, &request);
}

static int run(const struct ctl_settings *settings, char **operands, int n_operands)
{
    struct snapshot snapshot = {.jobs = NULL};
    int status = status_ask(settings, n_operands > 0 ? operands[0] : NULL, &snapshot);
    if (status == EXIT_SUCCESS &&
        (settings->json ? print_json(&snapshot) : print_table(&snapshot)) != 0) {
        (void)fprintf(stderr, "tfe-ctl: out of memory\n");
        status = CTL_FAILED;
    }
    snapshot_done(&snapshot);
    return status;
}

const struct ctl_verb ctl_verb_status = {
    .name = "status",
    .usage = "tfe-ctl status [OPTIONS] [JOB]",
    .about = "show jobs and their nodes, or one job",
    .operands_min = 0,
    .operands_max = 1,
    .run = run,
};
