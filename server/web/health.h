/* server/web/health.h: asks the server once a second whether it answers, for /readyz. */
#ifndef TFE_SERVER_WEB_HEALTH_H
#define TFE_SERVER_WEB_HEALTH_H

#include <stdbool.h>

#include "common/base/error.h"

struct probe;
struct web;

#define PROBE_WHY_MAX 192

/* TFE_ENOMEM. */
int probe_new(struct web *web, struct probe **ret) TFE_MUST_CHECK;
/* Before the views; NULL is allowed. */
void probe_free(struct probe *probe);

/* Whether the server answers our own token. False: why is a sentence. */
bool probe_is_ready(const struct probe *probe, char reason[PROBE_WHY_MAX]);

#endif
