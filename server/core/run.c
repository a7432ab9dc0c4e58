/* server/core/run.c: runs of a job: the present one, the named ones that have ended, and the reply
 * to nodes that come late to those (design 4.10). */
#include "server/core/run.h"

#include <string.h>

#include "common/text/text.h"
#include "server/core/job.h"

static void remember(struct run *run, const struct rdzv_run_end *end)
{
    if (end->key.text[0] == '\0') {
        return;
    }
    if (run->n_past == RDZV_RUNS_MAX) {
        memmove(&run->past[0], &run->past[1], (RDZV_RUNS_MAX - 1) * sizeof(run->past[0]));
        run->n_past--;
    }
    run->past[run->n_past++] = *end;
}

void run_begin(struct job *job, const char *key)
{
    struct run *run = &job->run;
    if (run->number > 0) {
        struct rdzv_run_end last = run_last(job);
        remember(run, &last);
    }
    run->number += run->number < MSG_RUN_MAX ? 1 : 0;
    run->is_new = true;
    run->key.text[0] = '\0';
    if (key) {
        (void)id_set(&run->key, key); /* valid, as it was checked before */
    }
}

void run_go_on(struct job *job, uint32_t number)
{
    job->run.number = number;
    job->run.is_new = false;
}

void run_restore(struct job *job, uint32_t number, const char *sentence, struct tfe_wall ended)
{
    job->run.number = number;
    job->run.is_new = false;
    run_end_as(job, ended, sentence);
}

void run_begun(struct job *job)
{
    job->run.is_new = false;
}

struct rdzv_run_end run_last(const struct job *job)
{
    const struct run *run = &job->run;
    return (struct rdzv_run_end){
        .run = run->number, .key = run->key, .result = job_result(job), .at = run->ended};
}

const struct rdzv_run_end *run_find(const struct job *job, const char *key)
{
    for (uint32_t i = 0; i < job->run.n_past; i++) {
        if (strcmp(job->run.past[i].key.text, key) == 0) {
            return &job->run.past[i];
        }
    }
    return NULL;
}

void run_describe(struct text *text, const struct job *job, const struct rdzv_run_end *run)
{
    text_addf(text, "job %s run %u ended %s", job->name.text, run->run,
              msg_result_name(run->result));
    if (run->at.ms > 0) {
        text_add(text, " at ");
        text_add_wall(text, run->at);
    }
}

void run_send_end(struct rdzv *r, const struct job *job, const struct rdzv_run_end *run,
                  uint32_t session)
{
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    run_describe(&text, job, run);
    send_finish(r, session, run->result, run->run, r->sentence);
}

void run_end_as(struct job *job, struct tfe_wall when, const char *sentence)
{
    job->run.ended = when;
    if (sentence) {
        memcpy(job->run.sentence, sentence, strlen(sentence) + 1);
    }
}
