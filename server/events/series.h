/* server/events/series.h: numbers that the scripts of a run report, one series per name, in memory:
 * the newest value, and points spread over all of the run. A restart of the server forgets them;
 * Prometheus keeps a history (tfe-web, /metrics). */
#ifndef TFE_SERVER_EVENTS_SERIES_H
#define TFE_SERVER_EVENTS_SERIES_H

#include "common/message/msg.h"
#include "server/core/rdzv.h"
#include "server/query/record_source.h"

struct series;

/* Of one run: names that scripts report. */
#define SERIES_NAMES_MAX 32
/* Jobs. */
#define SERIES_JOBS_MAX 2000
/* Points of one series: every one at first, then every second, every fourth … */
#define SERIES_POINTS_MAX 512u

/* core outlives it. TFE_ENOMEM. */
int series_new(const struct rdzv *core, struct series **ret) TFE_MUST_CHECK;
/* NULL is allowed. */
void series_free(struct series *s);

/* Adds a point; ord and time are set here. A later run of the job replaces the one before. Returns
 * false if there are too many jobs or names, the run is an earlier one, or there is no memory. */
bool series_add(struct series *s, const struct msg_series_row *point);

/* The newest point of the first name after `after` (NULL: of the first name) in the job's newest
 * run; its texts are borrowed until the next series_add. False: there is none. */
bool series_last(const struct series *s, const char *job, const char *after,
                 struct msg_series_row *ret);

/* The points that SERIES asks for: SERIES_ROW …, STATUS_END. series outlives the source.
 * TFE_ENOMEM. */
int rows_series(const struct series *series, const struct msg_series *asked,
                struct rows **ret) TFE_MUST_CHECK;

#endif
