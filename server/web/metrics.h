/* server/web/metrics.h: /metrics, in OpenMetrics' text: the server's numbers, those of its jobs,
 * and this program's own. Labels are bounded: no node is one, and of jobs the first
 * METRICS_JOBS_MAX; the others are added up as job="". */
#ifndef TFE_SERVER_WEB_METRICS_H
#define TFE_SERVER_WEB_METRICS_H

#include "common/base/error.h"

struct metrics;
struct request;
struct web;

#define METRICS_JOBS_MAX 200

/* TFE_ENOMEM. */
int metrics_new(struct web *web, struct metrics **ret) TFE_MUST_CHECK;
/* NULL is allowed. */
void metrics_free(struct metrics *metrics);

void metrics_show(struct request *r);

#endif
