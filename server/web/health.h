/* server/web/health.h: probes the server once a second for /readyz. */
#ifndef TFE_SERVER_WEB_HEALTH_H
#define TFE_SERVER_WEB_HEALTH_H

#include <stdbool.h>

#include "common/base/error.h"

struct probe;
struct web;

#define PROBE_REASON_MAX 192

/* TFE_ENOMEM. */
int probe_new(struct web *web, struct probe **ret) TFE_MUST_CHECK;
/* Call before views_free. NULL is allowed. */
void probe_free(struct probe *probe);

/* Returns true if the server responds to tfe-web's own token. Otherwise reason is a sentence. */
bool probe_is_ready(const struct probe *probe, char reason[PROBE_REASON_MAX]);

#endif
