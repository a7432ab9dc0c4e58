/* common/rows/answers.c: see answers.h. */
#include "common/rows/answers.h"

#include "common/net/clock.h"
#include "common/rows/epochs.h"
#include "common/rows/json.h"
#include "common/rows/kinds.h"

json_t *answer_status(const struct row_list *rows)
{
    json_t *jobs = json_array();
    json_t *nodes = NULL;
    json_t *metrics = NULL;
    int failed = 0;
    for (size_t i = 0; i < rows->n && !failed; i++) {
        if (rows->v[i].kind == &kind_health) {
            continue;
        }
        json_t *object = row_json(rows->v[i].kind, rows->v[i].at);
        if (rows->v[i].kind == &kind_job) {
            nodes = json_array();
            metrics = json_object();
            failed |= json_object_set_new(object, "metrics", metrics);
            failed |= json_object_set_new(object, "nodes", nodes);
            failed |= json_array_append_new(jobs, object);
        } else if (rows->v[i].kind == &kind_point) {
            const struct msg_series_row *point = rows->v[i].at;
            failed |= json_object_set_new(metrics, point->name, json_real(point->value));
            json_decref(object);
        } else {
            failed |= json_array_append_new(nodes, object);
        }
    }
    if (failed) {
        json_decref(jobs);
        return NULL;
    }
    return json_pack("{s:o, s:o}", "jobs", jobs, "health", row_list_json(rows, &kind_health));
}

/* --- ledgers --- */

static json_t *total_json(const struct epochs_total *total)
{
    json_t *by_cause = json_object();
    for (unsigned i = 0; i < EPOCHS_CAUSES; i++) {
        if (total->standstill[i] > 0 &&
            json_object_set_new(by_cause, msg_cause_name((enum tfe_cause)i),
                                json_integer(total->standstill[i])) != 0) {
            json_decref(by_cause);
            return NULL;
        }
    }
    if (total->now > 0 &&
        json_object_set_new(by_cause, "now", json_integer((json_int_t)total->now)) != 0) {
        json_decref(by_cause);
        return NULL;
    }
    /* In tenths of a percent: all numbers of ours are whole. */
    return json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:b}", "running_ms", (json_int_t)total->running, "standstill_ms",
        (json_int_t)total->standstill_all, "standstill_ms_by_cause", by_cause, "lost_steps",
        total->has_lost ? json_integer((json_int_t)total->lost_steps) : json_null(),
        "useful_permille",
        total->useful < 0 ? json_null() : json_integer((json_int_t)(total->useful * 10 + 0.5)),
        "standstill_at_least", total->is_least);
}

/* What no row says: nobody trains, and what for. */
static json_t *now_json(const struct epochs_total *total)
{
    return total->now < 0 ? json_null()
                          : json_pack("{s:I, s:s, s:s?}", "standstill_ms", (json_int_t)total->now,
                                      "state", total->job->state, "waits", total->job->waits);
}

json_t *answer_epochs(const struct row_list *ledger, const char *job)
{
    struct epochs_total total;
    epochs_sum(ledger, clock_wall(), &total);
    return json_pack("{s:s, s:o, s:o, s:o}", "job", job, "epochs",
                     row_list_json(ledger, &kind_epoch), "total", total_json(&total), "now",
                     now_json(&total));
}

/* --- nodes --- */

json_t *answer_nodes(struct row_list *rows)
{
    const struct msg_status_job *job = NULL;
    for (size_t i = 0; i < rows->n; i++) {
        if (rows->v[i].kind == &kind_job) {
            job = rows->v[i].at;
        } else if (rows->v[i].kind == &kind_node) {
            if (!job) {
                return NULL;
            }
            ((struct node_row *)rows->v[i].at)->job = job->job;
            rows->v[i].kind = &kind_node_of_job;
        }
    }
    return json_pack("{s:o}", "nodes", row_list_json(rows, &kind_node_of_job));
}

json_t *answer_events(const struct row_list *rows, uint64_t after)
{
    const struct msg_event_row *last = rows->n > 0 ? rows->v[rows->n - 1].at : NULL;
    return json_pack("{s:o, s:I}", "events", row_list_json(rows, &kind_event), "newest",
                     (json_int_t)(last ? last->number : after));
}

json_t *answer_describe(const struct row_list *rows)
{
    const struct msg_job_row *job = row_list_head(rows, &kind_submission);
    json_t *object = job ? row_json(&kind_submission, job) : NULL;
    if (object &&
        (json_object_set_new(object, "conditions", row_list_json(rows, &kind_condition)) != 0 ||
         json_object_set_new(object, "nodes", row_list_json(rows, &kind_pool_node)) != 0)) {
        json_decref(object);
        object = NULL;
    }
    return object;
}
