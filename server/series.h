/* server/series.h: numbers that a run's scripts tell, one series a name: the newest value in
 * memory, a bounded number of points (common/base/series.h) in the store, written a few seconds at
 * a time. */
#ifndef TFE_SERVER_SERIES_H
#define TFE_SERVER_SERIES_H

#include "common/base/msg.h"
#include "common/net/why.h"
#include "server/core/rdzv.h"
#include "server/store/store.h"

struct event_base;
struct series;
struct writer;

/* Of one run: what scripts tell at once, and what they may rename. */
#define SERIES_NAMES_MAX 32
/* Jobs, some 3 KB each where all names are used. */
#define SERIES_JOBS_MAX 2000

/* core outlives it. TFE_ENOMEM. */
int series_new(struct event_base *base, const struct rdzv *core,
               struct series **ret) TFE_MUST_CHECK;
/* NULL is allowed. What was not flushed is lost. */
void series_free(struct series *s);

/* Takes in the newest points of the jobs that the core knows. Before the store is the writer's. As
 * store_read_page. */
int series_load(struct series *s, struct store *store, struct tfe_why *why) TFE_MUST_CHECK;
/* From here on points are kept there; it outlives s. */
void series_keep(struct series *s, struct writer *writer);

/* The next point of a series; ord and time are its own. A later run of the job replaces the one
 * before in memory. False: it was not taken, for there are too many jobs or names, or no memory. */
bool series_add(struct series *s, const struct msg_series_row *point);

/* Hands what was told to the writer now. */
void series_flush(struct series *s);

/* The newest point of the name that follows on `after` (NULL: the first) in the job's newest run;
 * its texts are borrowed until the next one is added. False: there is none. */
bool series_last(const struct series *s, const char *job, const char *after,
                 struct msg_series_row *ret);

#endif
