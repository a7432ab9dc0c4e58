/* server/core/run.c: runs of a job: the present one, the named ones that have ended, and the reply
 * to nodes that come late to those (design 4.10). */
#include "server/core/run.h"

#include <string.h>

#include "common/text/text.h"
#include "server/core/job.h"

static void remember(struct run *run, const struct run_end *end)
{
    if (end->key.text[0] == '\0') {
        return;
    }
    if (run->n_past == RUNS_ENDED_MAX) {
        memmove(&run->past[0], &run->past[1], (RUNS_ENDED_MAX - 1) * sizeof(run->past[0]));
        run->n_past--;
    }
    run->past[run->n_past++] = *end;
}

void run_begin(struct job *job, const char *key)
{
    struct run *run = &job->run;
    if (run->number > 0) {
        struct run_end last = run_last(job);
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

struct run_end run_last(const struct job *job)
{
    const struct run *run = &job->run;
    return (struct run_end){
        .run = run->number, .key = run->key, .result = job_result(job), .at = run->ended};
}

const struct run_end *run_find(const struct job *job, const char *key)
{
    for (uint32_t i = 0; i < job->run.n_past; i++) {
        if (strcmp(job->run.past[i].key.text, key) == 0) {
            return &job->run.past[i];
        }
    }
    return NULL;
}

void run_write_past(const struct job *job, char ret[RUNS_TEXT_MAX])
{
    struct text text;
    text_init(&text, ret, RUNS_TEXT_MAX);
    for (uint32_t i = 0; i < job->run.n_past; i++) {
        const struct run_end *past = &job->run.past[i];
        text_addf(&text, "%u %s %s %llu\n", past->run, past->key.text,
                  msg_result_name(past->result), (unsigned long long)past->at.ms);
    }
}

static bool read_number(const char *word, uint64_t max, uint64_t *ret)
{
    *ret = 0;
    for (; *word; word++) {
        if (*word < '0' || *word > '9' || *ret > (max - (uint64_t)(*word - '0')) / 10) {
            return false;
        }
        *ret = *ret * 10 + (uint64_t)(*word - '0');
    }
    return true;
}

static bool read_result(const char *word, enum tfe_result *ret)
{
    for (enum tfe_result result = RESULT_SUCCEEDED; result <= RESULT_CANCELLED; result++) {
        if (strcmp(word, msg_result_name(result)) == 0) {
            *ret = result;
            return true;
        }
    }
    return false;
}

int run_read_past(struct job *job, const char *text)
{
    struct run *v = &job->run;
    v->n_past = 0;
    while (*text) {
        struct run_end past;
        char words[4][TFE_ID_MAX + 1]; /* run, key, result, time of the end */
        uint64_t run;
        uint64_t ended;
        for (int i = 0; i < 4; i++) {
            size_t n = strcspn(text, i < 3 ? " " : "\n");
            if (n > TFE_ID_MAX || !text[n]) {
                return TFE_EINVAL;
            }
            memcpy(words[i], text, n);
            words[i][n] = '\0';
            text += n + 1;
        }
        if (!read_number(words[0], UINT32_MAX, &run) || run < 1 ||
            (run >= v->number && v->number < MSG_RUN_MAX) || id_set(&past.key, words[1]) ||
            !read_result(words[2], &past.result) || !read_number(words[3], INT64_MAX, &ended) ||
            v->n_past == RUNS_ENDED_MAX) {
            return TFE_EINVAL;
        }
        past.run = (uint32_t)run;
        past.at.ms = (int64_t)ended;
        v->past[v->n_past++] = past;
    }
    return 0;
}

void run_describe(struct text *text, const struct job *job, const struct run_end *run)
{
    text_addf(text, "job %s run %u ended %s", job->name.text, run->run,
              msg_result_name(run->result));
    if (run->at.ms > 0) {
        text_add(text, " at ");
        text_add_wall(text, run->at);
    }
}

void run_send_end(struct rdzv *r, const struct job *job, const struct run_end *run,
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
