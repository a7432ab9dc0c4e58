/* server/core/first_start.c: detects a script that cannot start. */
#include "server/core/first_start.h"

#include <string.h>

#include "common/base/text.h"
#include "server/core/job.h"
#include "server/core/last_words.h"

/* A trainer that has run for this long has parsed its arguments and imported its modules. */
#define START_MS 3000
/* Time for the other ranks to fail alike: START reaches rank 0 up to 300 ms earlier (4.3). As long
 * as the first back-off. */
#define OTHERS_MS 1000

/* Copies the exception's name without its message, because paths and ports differ between ranks. */
static void name_exception(char ret[FIRST_START_WORDS_MAX], const char *tail)
{
    const char *line = last_words_exception(tail ? tail : "");
    size_t n = line ? strcspn(line, ":\n") : 0;
    n = n < FIRST_START_WORDS_MAX ? n : FIRST_START_WORDS_MAX - 1;
    text_setf(ret, n + 1, "%s", line ? line : "");
}

static bool is_young(const struct rdzv *r, const struct job *job)
{
    return job->epoch.is_first && !job->epoch.is_adopted && job->epoch.n_listening == 0 &&
           !job->told.has_step && job->told.saves == 0 &&
           tfe_mono_sub(r->now, job->epoch.started) <= START_MS;
}

void first_start_take(const struct rdzv *r, const struct node *node,
                      const struct msg_exited *exited, enum verdict verdict)
{
    struct job *job = node->job;
    struct first_start *f = &job->first_start;
    bool is_so = verdict == VERDICT_OWN_FAULT && exited->signal == 0 && !job->spec.retry_start;
    char words[FIRST_START_WORDS_MAX];
    name_exception(words, exited->tail);
    if (is_so && job->epoch.n_accounted == 0 && is_young(r, job)) {
        *f = (struct first_start){.epoch = job->epoch.number,
                                  .n_dead = 1,
                                  .code = exited->code,
                                  .until = tfe_mono_add(r->now, OTHERS_MS)};
        text_setf(f->words, sizeof(f->words), "%s", words);
    } else if (is_so && f->n_dead > 0 && f->code == exited->code && strcmp(f->words, words) == 0) {
        f->n_dead++;
    } else {
        f->n_dead = 0;
    }
}

struct tfe_mono first_start_until(const struct job *job)
{
    const struct first_start *f = &job->first_start;
    bool waits = f->epoch == job->epoch.number && f->n_dead > 0 && f->n_dead < job->epoch.n_seats;
    return waits ? f->until : (struct tfe_mono){0};
}

void first_start_excuse(struct job *job)
{
    job->first_start.n_dead = 0;
}

bool first_start_has_failed(const struct job *job)
{
    const struct first_start *f = &job->first_start;
    return f->epoch == job->epoch.number && f->n_dead > 0 && f->n_dead == job->epoch.n_seats;
}
