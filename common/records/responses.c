/* common/records/responses.c: JSON documents of whole responses. */
#include "common/records/responses.h"

#include "common/base/clock.h"
#include "common/records/epoch_summary.h"
#include "common/records/json_text.h"
#include "common/records/schemas.h"

/* Returns the name of the list, in the preceding job's object, that records of this schema belong
 * to; NULL if none. */
static const char *list_of(const struct record_schema *schema)
{
    return schema == &schema_node        ? "nodes"
           : schema == &schema_condition ? "conditions"
           : schema == &schema_pool_node ? "pool"
                                         : NULL;
}

static int begin_job(json_t *jobs, json_t *job, bool has_nodes, bool has_detail)
{
    int failed = json_object_set_new(job, "metrics", json_object());
    if (has_nodes) {
        failed |= json_object_set_new(job, "nodes", json_array());
    }
    if (has_detail) {
        failed |= json_object_set_new(job, "conditions", json_array());
        failed |= json_object_set_new(job, "pool", json_array());
    }
    return failed | json_array_append_new(jobs, job);
}

/* True if the response was requested with detail: then every job has a condition. */
static bool is_detailed(const struct record_list *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        if (rows->v[i].schema == &schema_condition) {
            return true;
        }
    }
    return false;
}

static json_t *jobs_json(const struct record_list *rows, bool has_nodes)
{
    const bool has_detail = is_detailed(rows);
    json_t *jobs = json_array();
    json_t *job = NULL;
    int failed = !jobs;
    for (size_t i = 0; i < rows->n && !failed; i++) {
        const struct record *row = &rows->v[i];
        const char *list = list_of(row->schema);
        if (row->schema == &schema_job) {
            job = record_json(row->schema, row->at);
            failed = begin_job(jobs, job, has_nodes, has_detail);
        } else if (row->schema == &schema_point) {
            const struct msg_series_row *point = row->at;
            failed = json_object_set_new(json_object_get(job, "metrics"), point->name,
                                         json_real(point->value));
        } else if (list) {
            failed = json_array_append_new(json_object_get(job, list),
                                           record_json(row->schema, row->at));
        }
    }
    if (failed) {
        json_decref(jobs);
        return NULL;
    }
    return jobs;
}

json_t *response_status(const struct record_list *rows)
{
    return json_pack("{s:o, s:o}", "jobs", jobs_json(rows, true), "health",
                     record_list_json(rows, &schema_health));
}

json_t *response_jobs(const struct record_list *rows)
{
    return json_pack("{s:o, s:o}", "jobs", jobs_json(rows, false), "health",
                     record_list_json(rows, &schema_health));
}

json_t *response_job(const struct record_list *rows)
{
    json_t *jobs = jobs_json(rows, true);
    json_t *job = json_incref(json_array_get(jobs, 0));
    json_decref(jobs);
    return job;
}

/* --- ledgers ---------------------------------------------------------------------------------- */

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
    /* Convert to tenths of a percent, because all numbers in the API are integers. */
    return json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:b}", "running_ms", (json_int_t)total->running, "standstill_ms",
        (json_int_t)total->standstill_all, "standstill_ms_by_cause", by_cause, "lost_steps",
        total->has_lost ? json_integer((json_int_t)total->lost_steps) : json_null(),
        "useful_permille",
        total->useful < 0 ? json_null() : json_integer((json_int_t)(total->useful * 10 + 0.5)),
        "standstill_at_least", total->is_lower_bound);
}

/* Returns the current standstill, which no epoch record contains, and its reason. */
static json_t *now_json(const struct epochs_total *total)
{
    return total->now < 0
               ? json_null()
               : json_pack("{s:I, s:s, s:s?}", "standstill_ms", (json_int_t)total->now, "state",
                           msg_job_state_name(total->job->state), "waits", total->job->waits);
}

json_t *response_epochs(const struct record_list *ledger, const char *job)
{
    struct epochs_total total;
    epochs_sum(ledger, clock_wall(), &total);
    return json_pack("{s:s, s:o, s:o, s:o}", "job", job, "epochs",
                     record_list_json(ledger, &schema_epoch), "total", total_json(&total), "now",
                     now_json(&total));
}

/* --- nodes ------------------------------------------------------------------------------------ */

json_t *response_nodes(struct record_list *rows)
{
    const struct msg_status_job *job = NULL;
    for (size_t i = 0; i < rows->n; i++) {
        if (rows->v[i].schema == &schema_job) {
            job = rows->v[i].at;
        } else if (rows->v[i].schema == &schema_node) {
            if (!job) {
                return NULL;
            }
            ((struct node_record *)rows->v[i].at)->job = job->job;
            rows->v[i].schema = &schema_node_of_job;
        }
    }
    return json_pack("{s:o}", "nodes", record_list_json(rows, &schema_node_of_job));
}

json_t *response_events(const struct record_list *rows, uint64_t after)
{
    const struct msg_event_row *last = rows->n > 0 ? rows->v[rows->n - 1].at : NULL;
    return json_pack("{s:o, s:I}", "events", record_list_json(rows, &schema_event), "newest",
                     (json_int_t)(last ? last->number : after));
}
