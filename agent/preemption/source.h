/* agent/preemption/source.h: interface and helpers of the sources of notices. Private
 * to agent/preemption. */
#ifndef TFE_AGENT_PREEMPTION_SOURCE_H
#define TFE_AGENT_PREEMPTION_SOURCE_H

#include <event2/event.h>

#include "agent/preemption/preemption.h"
#include "common/channel/http_client.h"

/* Maximum length of an event id (Azure: a UUID), an action or a file's content. */
#define SOURCE_TAG_MAX 63

/* Size of arrays indexed by kind; kinds start at 1. */
#define SOURCE_KINDS (NOTICE_OPERATOR + 1)

/* Fits "X-aws-ec2-metadata-token: " and a token. */
#define SOURCE_HEADER_MAX 1087

struct source;
struct source_poll;

/* Handles a response of a cloud's service, of any status. Returns NULL, or a static text that says
 * why the response is useless. */
typedef const char *source_response_fn(struct source_poll *poll,
                                       const struct http_response *response);

/* A repeated activity of a source. The first poll runs at once, each further one when it is
 * scheduled. */
struct source_poll {
    struct source *source;
    void (*turn)(struct source_poll *poll);
    /* Handles a missing or useless response and schedules the next poll. NULL to report the
     * failure of the source. */
    void (*failed)(struct source_poll *poll, const char *reason);
    uint32_t interval_ms; /* time from a response to the next poll, unless one is scheduled */
    struct event *timer;  /* NULL if the poll has been stopped */
    /* Request in progress; call is NULL if there is none. */
    struct http_call *call;
    const char *path;
    source_response_fn *handle;
};

/* A query for one fact about the machine. */
struct source_query {
    const char *path; /* NULL ends the list */
    /* Reads a response with status 200. Returns false and changes nothing if it is malformed. */
    bool (*read)(struct cloud_info *info, const struct http_response *response);
};

struct source_ops {
    const char *name;
    size_t size; /* size of the zero-initialised private data, or 0 */
    void (*turn)(
        struct source_poll *poll);   /* function that polls the source, or NULL if it has none */
    void (*start)(struct source *s); /* NULL if not needed */
    void (*stop)(struct source *s);  /* NULL if not needed; may be called twice */
    /* receives changes of the drained state; NULL if not needed */
    void (*drained)(struct source *s, bool is_drained);
    const struct source_query *queries; /* queries about the machine; clouds only */
    /* writes the header of requests that name none; clouds only */
    void (*header)(const struct source *s, char ret[SOURCE_HEADER_MAX + 1]);
};

extern const struct source_ops source_aws, source_gce, source_azure, source_file, source_command,
    source_signal;

/* Current notice of one kind from one source. */
struct source_notice {
    bool is_active;
    bool is_uncertain;
    char tag[SOURCE_TAG_MAX + 1];
    struct tfe_mono deadline;
};

struct source {
    struct notice_watch *all;
    /* Called when the notice of a kind has changed. */
    void (*update_kind)(struct notice_watch *all, enum tfe_notice kind);
    /* Called each time the service has responded properly. */
    void (*found)(struct notice_watch *all, struct source *s);
    struct event_base *base;
    const struct notice_watch_options *options;
    const struct source_ops *ops;
    const char *place; /* address of the service; clouds only */
    struct source_poll poll;
    void *own;
    bool is_found;  /* the service has responded once, or was selected by name or by the firmware */
    bool is_silent; /* not found and a request timed out; polled at a longer interval */
    bool is_over;
    bool in_trouble;
    bool *
        silence_logged; /* shared by all sources: one warning for all services that are not found */
    struct tfe_mono warn_at; /* earliest time of the next warning */
    struct source_notice notices[SOURCE_KINDS];
};

/* Sets the notice of a kind. While the tag stays the same nothing changes, even if the deadline
 * does, because a service may compute the deadline for each response. */
void source_set(struct source *s, enum tfe_notice kind, const char *tag, struct tfe_mono deadline,
                bool is_uncertain);
/* Withdraws the notice of a kind, if there is one. */
void source_withdraw(struct source *s, enum tfe_notice kind);

/* Reports a failure; what names the file, command or request. Logged once until the source works
 * again. Stops the source if its service was not found, because another service responds there. */
void source_failed(struct source *s, const char *what, const char *reason);
/* Reports that the source works. */
void source_works(struct source *s);

void source_start(struct source *s);
void source_stop(struct source *s);

void source_poll_start(struct source_poll *poll, struct source *s,
                       void (*turn)(struct source_poll *poll));
void source_poll_stop(struct source_poll *poll);
/* Schedules the next poll of the source; later than ms if the source is silent. */
void source_poll_after(struct source_poll *poll, uint32_t ms);

/* Requests a path with its query from the cloud's service; path must stay valid until the
 * response. Of question only method, headers (NULL: the header of the source's requests), body and
 * within_ms (0: the source's timeout) are used. Without a useful response, reports the failure.
 * Schedules the next poll after poll->interval_ms, unless handle has scheduled one or stopped the
 * poll. */
void source_request(struct source_poll *poll, const char *path, const struct http_request *question,
                    source_response_fn *handle);

/* Returns the deadline of a notice that names none. */
struct tfe_mono source_grace(const struct source *s);
/* Converts a time of the service ("2026-01-02T03:04:05Z" or "Fri, 02 Jan 2026 03:04:05 GMT") to
 * the monotonic clock, between now and max_ms from now. Uses the response's Date header as the
 * current time if there is one, because the local wall clock may be wrong. Returns TFE_EINVAL
 * for a malformed time. */
int source_deadline(const struct http_response *response, const char *text, uint32_t max_ms,
                    struct tfe_mono *ret) TFE_MUST_CHECK;

/* Copies n bytes of a name from a cloud. Returns false if it is empty, too long, or contains
 * blanks or unprintable characters. */
bool source_text(char ret[CLOUD_TEXT_MAX + 1], const char *text, size_t n);

/* Parses a whole number of seconds surrounded by blanks. Returns false for other text. */
bool source_seconds(const char *text, struct tfe_mono *ret_deadline);

#endif
