/* server/web/api.h: the handlers of /api/v1. Each sends the response, now or later. */
#ifndef TFE_SERVER_WEB_API_H
#define TFE_SERVER_WEB_API_H

#include "server/web/request.h"

/* Returns true if the path names a valid job id. Otherwise responds with 400. */
bool api_is_job(struct request *r);

void api_status(struct request *r);
void api_jobs(struct request *r);
void api_job(struct request *r);
void api_nodes(struct request *r);
void api_epochs(struct request *r);
void api_pool(struct request *r);
void api_demand(struct request *r);
void api_gauges(struct request *r);
void api_audit(struct request *r);
void api_events(struct request *r);
void api_series(struct request *r);
void api_stream(struct request *r);

/* Defined in orders.c, submit.c and bundle_upload.c. */
void api_drain(struct request *r);
void api_evict(struct request *r);
void api_grow(struct request *r);
void api_submit(struct request *r);
void api_put_bundle(struct request *r);
void api_scale(struct request *r);
void api_suspend(struct request *r);
void api_resume(struct request *r);
void api_cancel(struct request *r);
void api_restart(struct request *r);

void api_session(struct request *r);
void api_login(struct request *r);
void api_logout(struct request *r);

void api_healthz(struct request *r);
void api_readyz(struct request *r);

#endif
