/* agent/notice/source.h: what the sources of notices share. Private to agent/notice. */
#ifndef TFE_AGENT_NOTICE_SOURCE_H
#define TFE_AGENT_NOTICE_SOURCE_H

#include <event2/event.h>

#include "agent/notice/notice.h"

/* An event's id (Azure: a UUID), an action, what a file holds. */
#define SOURCE_TAG_MAX 63

/* Warnings of these kinds; the numbers begin at 1. */
#define SOURCE_KINDS (NOTICE_OPERATOR + 1)

struct source;

struct source_ops {
    const char *name;
    size_t size;                                        /* of own, which begins as zeros */
    int (*start)(struct source *s);                     /* TFE_ENOMEM: stop is called */
    void (*stop)(struct source *s);                     /* also half started, and twice */
    void (*drained)(struct source *s, bool is_drained); /* NULL: nobody is told */
};

extern const struct source_ops source_aws, source_gce, source_azure, source_file, source_command,
    source_signal;

/* What a source says of one kind. */
struct source_word {
    bool is_said;
    bool is_uncertain;
    char tag[SOURCE_TAG_MAX + 1];
    struct tfe_mono deadline;
};

struct source {
    struct notices *all;
    struct event_base *base;
    const struct notice_wish *wish;
    const struct source_ops *ops;
    const struct http_place *place; /* clouds */
    void *own;
    bool is_found; /* it has answered once, or was asked for by name */
    bool is_over;
    bool in_trouble;
    struct tfe_mono say_next; /* no complaint before */
    struct source_word words[SOURCE_KINDS];
};

/* A warning is there. The tag says which: while it stays the same, nothing changes, whatever the
 * deadline (which may be a service's idea of "in two minutes"). */
void source_tell(struct source *s, enum tfe_notice kind, const char *tag, struct tfe_mono deadline,
                 bool is_uncertain);
/* There is none of this kind, or not any more. */
void source_quiet(struct source *s, enum tfe_notice kind);

/* A question was of no use; what names it, why says how. Logged once until it works again. False:
 * the source was only tried and is over; it must not go on. */
bool source_failed(struct source *s, const char *what, const char *why);
/* One was. */
void source_works(struct source *s);

/* Asks the cloud's service. False: it could not even be asked (and source_failed was called). */
bool source_ask(struct source *s, const struct http_question *question, http_fn *on_answer,
                void *ctx, struct http **ret);
/* How long an answer may take now. */
uint32_t source_patience(const struct source *s);

/* Deadline of a warning that names none. */
struct tfe_mono source_grace(const struct source *s);
/* The service's time ("2026-01-02T03:04:05Z" or "Fri, 02 Jan 2026 03:04:05 GMT") on our steady
 * clock, between now and most_ms. It is compared with the service's own clock where the answer has
 * a Date: ours may be wrong, and jumps. TFE_EINVAL: it is no time. */
int source_deadline(const struct http_answer *answer, const char *text, uint32_t most_ms,
                    struct tfe_mono *ret) TFE_MUST_CHECK;

/* A whole number of seconds, blanks around it, and nothing else. False: it is none. */
bool source_seconds(const char *text, struct tfe_mono *ret_deadline);

#endif
