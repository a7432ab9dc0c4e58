/* server/core/late.h: runs that have ended, and who comes late to them. */
#ifndef TFE_SERVER_CORE_LATE_H
#define TFE_SERVER_CORE_LATE_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/msg.h"
#include "common/base/time.h"

struct job;
struct rdzv;
struct text;

/* Ended runs of a job whose names are remembered: a node that comes later with an older one is
 * taken for a newcomer. */
#define PAST_MAX 16
/* A line of a record about one: two numbers, an id, a word and a number. */
#define PAST_LINE_MAX (TFE_ID_MAX + 64)

/* How a run ended that had a name. */
struct past {
    uint32_t run;
    struct tfe_id key;
    enum tfe_result result;
    struct tfe_wall ended;
};

/* The run that is over, for late nodes: how it ended, and when. */
struct past late_last_run(const struct job *job);
/* The ended run of this name; NULL: none is known. The job's last run is not among them. */
const struct past *late_find(const struct job *job, const char *run_key);
/* Before the job's next run: keeps the name of the one that is over. */
void late_remember(struct job *job);
/* For a record, and back from one. TFE_EINVAL: not what is written, or of no run before this one.
 */
void late_write(const struct job *job, char ret[PAST_MAX * PAST_LINE_MAX]);
int late_read(struct job *job, const char *text) TFE_MUST_CHECK;
/* "job J run N ended RESULT at TIME" */
void late_add(struct text *text, const struct job *job, const struct past *run);
/* Tells a late node so, and lets it go. */
void late_tell(struct rdzv *r, const struct job *job, const struct past *run, uint32_t session);

#endif
