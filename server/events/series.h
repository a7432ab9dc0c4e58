/* server/events/series.h: metrics that the scripts of a run report, one series per name, in memory:
 * the newest value, and points spread over the whole run. A restart of the server loses them;
 * Prometheus keeps a history (tfe-web, /metrics). */
#ifndef TFE_SERVER_EVENTS_SERIES_H
#define TFE_SERVER_EVENTS_SERIES_H

#include "common/message/msg.h"
#include "server/core/rdzv.h"
#include "server/events/event_log.h"
#include "server/query/record_source.h"

struct series;

/* Maximum number of series of a run. */
#define SERIES_NAMES_MAX 32
/* Maximum number of jobs with series; above it those that the core has forgotten are forgotten. Not
 * less than the number of jobs that the core remembers (CORE_JOBS_MAX). */
#define SERIES_JOBS_MAX 10000
/* Maximum number of points of a series: first every point is stored, then every second, every
 * fourth, and so on. */
#define SERIES_POINTS_MAX 512u

/* Makes an empty store of series. Returns 0 or TFE_ENOMEM. */
int series_new(struct series **ret) TFE_MUST_CHECK;
/* Frees all series. NULL is allowed. */
void series_free(struct series *s);

/* Sets the function that returns the owner of a job: each owner has a share of the points. */
void series_set_owner_fn(struct series *s, events_owner_fn *owner_of, const void *ctx);

/* Adds a point; sets its ord and time. A later run of the job replaces an earlier one. Returns
 * false if there are too many names, the run is an earlier one, or memory is out. */
bool series_add(struct series *s, const struct msg_series_row *point);

/* Frees the series of a job that is forgotten. */
void series_forget(struct series *s, const char *job);

/* Returns in *ret the newest point of the first series after name `after` (NULL for the first) in
 * the job's newest run, or false if there is none. Texts are borrowed until the next series_add. */
bool series_last(const struct series *s, const char *job, const char *after,
                 struct msg_series_row *ret);

/* Makes the record source that answers SERIES: SERIES_ROWs, then STATUS_END. series must outlive
 * it. Returns 0 or TFE_ENOMEM. */
int rows_series(const struct series *series, const struct msg_series *asked,
                struct rows **ret) TFE_MUST_CHECK;

#endif
