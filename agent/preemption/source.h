/* agent/preemption/source.h: what the sources of notices share. Private to agent/preemption. */
#ifndef TFE_AGENT_PREEMPTION_SOURCE_H
#define TFE_AGENT_PREEMPTION_SOURCE_H

#include <event2/event.h>

#include "agent/preemption/cloud.h"
#include "agent/preemption/preemption.h"
#include "common/channel/http_client.h"

/* An event's id (Azure: a UUID), an action, what a file holds. */
#define SOURCE_TAG_MAX 63

/* Warnings of these kinds; the numbers begin at 1. */
#define SOURCE_KINDS (NOTICE_OPERATOR + 1)

/* "X-aws-ec2-metadata-token: " and a token. */
#define SOURCE_HEADER_MAX 1087

struct source;
struct source_poll;

/* Of a question to a cloud's service; as an http_fn. */
typedef void source_take_fn(struct source_poll *poll, const struct http_answer *answer,
                            const char *error);

/* What a source does again and again: its turn comes at once, and then whenever that is asked for.
 */
struct source_poll {
    struct source *source;
    void (*turn)(struct source_poll *poll);
    source_take_fn *take;
    struct event *timer;
    struct http_ask *ask; /* under way */
};

/* A question for people: what kind of machine this is. */
struct source_fact {
    const char *path; /* NULL ends the list */
    /* Reads a 200. False: it makes no sense, and nothing has changed. */
    bool (*take)(struct cloud_facts *facts, const struct http_answer *answer);
};

struct source_ops {
    const char *name;
    size_t size;                                        /* of own, which begins as zeros; or 0 */
    void (*turn)(struct source_poll *poll);             /* of the source's poll; NULL: has none */
    void (*start)(struct source *s);                    /* NULL */
    void (*stop)(struct source *s);                     /* NULL; also twice */
    void (*drained)(struct source *s, bool is_drained); /* NULL: nobody is told */
    const struct source_fact *facts;                    /* clouds */
    void (*head)(const struct source *s,
                 char ret[SOURCE_HEADER_MAX + 1]); /* clouds: what each question carries */
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
    /* It says something else of this kind than before. */
    void (*weigh)(struct notices *all, enum tfe_notice kind);
    /* Its service works; comes again and again. */
    void (*found)(struct notices *all, struct source *s);
    struct event_base *base;
    const struct notice_wish *wish;
    const struct source_ops *ops;
    struct http *http; /* clouds */
    const char *place; /* clouds: where the service is */
    struct source_poll poll;
    void *own;
    bool is_found;  /* it has answered once, was asked for by name, or the firmware names it */
    bool is_silent; /* not found, and a question had no answer: asked again at a slower pace */
    bool is_over;
    bool in_trouble;
    bool *silence_told;       /* of all sources: one warning for those that are not found */
    struct tfe_mono say_next; /* no complaint before */
    struct source_word words[SOURCE_KINDS];
};

/* A warning is there. The tag says which: while it stays the same, nothing changes, whatever the
 * deadline (which may be a service's idea of "in two minutes"). */
void source_tell(struct source *s, enum tfe_notice kind, const char *tag, struct tfe_mono deadline,
                 bool is_uncertain);
/* There is none of this kind, or not any more. */
void source_quiet(struct source *s, enum tfe_notice kind);

/* The answer to a question was of no use; what names the question, why says how. Logged once until
 * the source works again. False: it is not found, and this is not its service: it must not go on.
 */
bool source_failed(struct source *s, const char *what, const char *reason);
/* A question had no answer: the service may be slow, or out of reach for now. Logged once, with
 * what to look at in a container; the source goes on, whether it is found or not. */
void source_unanswered(struct source *s, const char *what, const char *reason);
/* One was. */
void source_works(struct source *s);

void source_start(struct source *s);
void source_stop(struct source *s);

void source_poll_start(struct source_poll *poll, struct source *s,
                       void (*turn)(struct source_poll *poll));
void source_poll_stop(struct source_poll *poll);
/* The next turn is in so many ms; later for a source that is silent. */
void source_poll_after(struct source_poll *poll, uint32_t ms);

/* Asks the cloud's service for a path, with its query. Of the question url and most are not looked
 * at, and within_ms 0 is what its source has patience for. take is called from here if it cannot
 * even be asked. */
void source_ask(struct source_poll *poll, const char *path, const struct http_question *question,
                source_take_fn *take);

/* Deadline of a warning that names none. */
struct tfe_mono source_grace(const struct source *s);
/* The service's time ("2026-01-02T03:04:05Z" or "Fri, 02 Jan 2026 03:04:05 GMT") on our steady
 * clock, between now and most_ms. It is compared with the service's own clock where the answer has
 * a Date: ours may be wrong, and jumps. TFE_EINVAL: it is no time. */
int source_deadline(const struct http_answer *answer, const char *text, uint32_t most_ms,
                    struct tfe_mono *ret) TFE_MUST_CHECK;

/* Copies n bytes of a name that a cloud tells, if it is one: printable, without blanks, not empty,
 * not too long. */
bool source_text(char ret[CLOUD_TEXT_MAX + 1], const char *text, size_t n);

/* A whole number of seconds, blanks around it, and nothing else. False: it is none. */
bool source_seconds(const char *text, struct tfe_mono *ret_deadline);

#endif
