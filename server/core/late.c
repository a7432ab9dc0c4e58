/* server/core/late.c: runs that have ended, and the nodes that come late to them (DESIGN 4.10). */
#include "server/core/late.h"

#include <string.h>

#include "server/core/core.h"

struct past late_last_run(const struct job *job)
{
    return (struct past){
        .run = job->run, .key = job->run_key, .result = job_result(job), .ended = job->ended};
}

const struct past *late_find(const struct job *job, const char *run_key)
{
    for (uint32_t i = 0; i < job->n_past; i++) {
        if (strcmp(job->past[i].key.text, run_key) == 0) {
            return &job->past[i];
        }
    }
    return NULL;
}

void late_remember(struct job *job)
{
    if (job->run_key.text[0] == '\0') {
        return;
    }
    if (job->n_past == PAST_MAX) {
        memmove(&job->past[0], &job->past[1], (PAST_MAX - 1) * sizeof(job->past[0]));
        job->n_past--;
    }
    job->past[job->n_past++] = late_last_run(job);
}

void late_write(const struct job *job, char ret[PAST_MAX * PAST_LINE_MAX])
{
    struct text text;
    text_init(&text, ret, (size_t)PAST_MAX * PAST_LINE_MAX);
    for (uint32_t i = 0; i < job->n_past; i++) {
        text_add_u64(&text, job->past[i].run);
        text_add(&text, " ");
        text_add(&text, job->past[i].key.text);
        text_add(&text, " ");
        text_add(&text, msg_result_name(job->past[i].result));
        text_add(&text, " ");
        text_add_u64(&text, (uint64_t)job->past[i].ended.ms);
        text_add(&text, "\n");
    }
}

/* The next word up to `end`, into room for size bytes. NULL: there is none, or it is too long. */
static const char *read_word(const char *at, char end, char *ret, size_t size)
{
    const char *stop = strchr(at, end);
    if (!stop || (size_t)(stop - at) >= size) {
        return NULL;
    }
    memcpy(ret, at, (size_t)(stop - at));
    ret[stop - at] = '\0';
    return stop + 1;
}

static const char *read_number(const char *at, char end, uint64_t max, uint64_t *ret)
{
    char word[21];
    const char *next = read_word(at, end, word, sizeof(word));
    *ret = 0;
    for (const char *p = word; next && *p; p++) {
        if (*p < '0' || *p > '9' || *ret > (max - (uint64_t)(*p - '0')) / 10) {
            return NULL;
        }
        *ret = *ret * 10 + (uint64_t)(*p - '0');
    }
    return next;
}

static bool read_result(const char *word, enum tfe_result *ret)
{
    for (enum tfe_result result = RESULT_SUCCEEDED; result <= RESULT_STOPPED; result++) {
        if (strcmp(word, msg_result_name(result)) == 0) {
            *ret = result;
            return true;
        }
    }
    return false;
}

int late_read(struct job *job, const char *text)
{
    job->n_past = 0;
    while (*text) {
        struct past past;
        char word[TFE_ID_MAX + 1];
        uint64_t run;
        uint64_t ended;
        text = read_number(text, ' ', UINT32_MAX, &run);
        text = text ? read_word(text, ' ', word, sizeof(word)) : NULL;
        if (!text || id_set(&past.key, word) || run < 1 || run >= job->run) {
            return TFE_EINVAL;
        }
        text = read_word(text, ' ', word, sizeof(word));
        if (!text || !read_result(word, &past.result)) {
            return TFE_EINVAL;
        }
        text = read_number(text, '\n', INT64_MAX, &ended);
        if (!text || job->n_past == PAST_MAX) {
            return TFE_EINVAL;
        }
        past.run = (uint32_t)run;
        past.ended.ms = (int64_t)ended;
        job->past[job->n_past++] = past;
    }
    return 0;
}

void late_add(struct text *text, const struct job *job, const struct past *run)
{
    text_add(text, "job ");
    text_add(text, job->name.text);
    text_add(text, " run ");
    text_add_u64(text, run->run);
    text_add(text, " ended ");
    text_add(text, msg_result_name(run->result));
    if (run->ended.ms > 0) {
        text_add(text, " at ");
        text_add_wall(text, run->ended);
    }
}

void late_tell(struct rdzv *r, const struct job *job, const struct past *run, uint32_t session)
{
    struct text text;
    text_init(&text, r->sentence, sizeof(r->sentence));
    late_add(&text, job, run);
    struct msg_finish *finish = &send_to(r, session, MSG_FINISH)->u.finish;
    finish->result = run->result;
    finish->run = run->run;
    finish->sentence = r->sentence;
    send_close(r, session);
}
