/* server/web/api.h: the handlers of /api/v1. Each sends the response, now or later. */
#ifndef TFE_SERVER_WEB_API_H
#define TFE_SERVER_WEB_API_H

#include "server/web/request.h"

/* Returns true if the path names a valid job id. Otherwise responds with 400. */
bool api_is_job(struct request *r);

/* Performs the operation of the route. The operand is the name in the path, or else the job in the
 * query. */
void api_operate(struct request *r);
void api_scale(struct request *r);
void api_events(struct request *r);
void api_series(struct request *r);
void api_stream(struct request *r);

/* Defined in submit.c and bundle_upload.c. */
void api_submit(struct request *r);
void api_put_bundle(struct request *r);

void api_session(struct request *r);
void api_login(struct request *r);
void api_logout(struct request *r);

void api_healthz(struct request *r);
void api_readyz(struct request *r);

#endif
