/* server/web/metrics.h: /metrics in OpenMetrics or Prometheus format: gauges of the server, its
 * jobs and tfe-web itself. Labels are bounded: nodes are never labels, and jobs beyond
 * METRICS_JOBS_MAX are added up as job="". */
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
