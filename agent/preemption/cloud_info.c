/* agent/preemption/cloud_info.c: implementation of cloud_info.h. */
#include "agent/preemption/cloud_info.h"

#include <string.h>

#include "common/cli/log.h"

/* Attempts per query; a service may be busy while a machine starts. Afterwards
 * the fact is omitted. */
#define TRIES 4

static void next(struct cloud_ask *ask)
{
    ask->failures = 0;
    ask->at++;
    if (ask->at->path) {
        source_poll_after(&ask->poll, 0);
        return;
    }
    const struct cloud_facts *f = &ask->facts;
    ask->at = NULL;
    log_info("cloud", LOG_S("cloud", f->cloud), LOG_S("zone", f->zone[0] ? f->zone : NULL),
             LOG_S("instance", f->instance[0] ? f->instance : NULL),
             LOG_B(f->has_spot ? "spot" : NULL, f->is_spot));
    ask->on_notify(ask->ctx, f);
}

static void handle(struct source_poll *poll, const struct http_response *answer, const char *error)
{
    struct cloud_ask *ask = (struct cloud_ask *)poll;
    const char *reason = error ? error : "not 200";
    if (answer && answer->status == 200) {
        reason = ask->at->handle(&ask->facts, answer) ? NULL : "not what it should be";
    }
    if (!reason || (answer && answer->status == 404)) {
        next(ask);
        return;
    }
    log_debug("cloud_not_told", LOG_S("at", ask->at->path), LOG_S("reason", reason));
    if (++ask->failures == TRIES) {
        next(ask);
    } else {
        source_poll_after(poll, poll->source->options->intervals->facts_ms);
    }
}

static void turn(struct source_poll *poll)
{
    const struct cloud_ask *ask = (struct cloud_ask *)poll;
    char line[SOURCE_HEADER_MAX + 1];
    const char *const headers[] = {line, NULL};
    poll->source->ops->head(poll->source, line);
    source_request(poll, ask->at->path, &(struct http_request){.method = "GET", .headers = headers},
                   handle);
}

void cloud_ask_start(struct cloud_ask *ask, struct source *s,
                     void (*on_notify)(void *ctx, const struct cloud_facts *facts), void *ctx)
{
    *ask = (struct cloud_ask){.on_notify = on_notify, .ctx = ctx, .at = s->ops->facts};
    ask->facts.cloud = s->ops->name;
    source_poll_start(&ask->poll, s, turn);
}

void cloud_ask_stop(struct cloud_ask *ask)
{
    source_poll_stop(&ask->poll);
}
