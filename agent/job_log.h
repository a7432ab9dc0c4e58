/* agent/job_log.h: log entries and messages for the user of an agent: about its job, about waiting
 * and about the end. */
#ifndef TFE_AGENT_JOB_LOG_H
#define TFE_AGENT_JOB_LOG_H

#include "agent/core/agent.h"
#include "agent/output/output_show.h"
#include "common/channel/endpoint.h"

struct job_log {
    char endpoint[ENDPOINT_TEXT_MAX]; /* of the server */
    const struct output_show *show;   /* trainer output that appears on the agent's streams */
    uint32_t join_timeout_ms;
    uint32_t rank;         /* rank of the node's first trainer */
    bool is_preparing;     /* the node is not ready for reasons of its own */
    bool is_sweeping;      /* trainers are ending because the agent kills them */
    bool trainers_ended;   /* the trainers ended before the server stopped them */
    bool server_responded; /* a server has sent a message */
    bool job_was_over;     /* the first message of the server was that the job is over */
    char stop_reason[MSG_SENTENCE_MAX]; /* reason of the STOP being handled, or "" */
    /* last lines of the trainer that failed on this node, if they were shown */
    char shown[MSG_TAIL_MAX + 1];
    struct {
        char logged[MSG_SENTENCE_MAX]; /* last sentence about waiting */
        struct tfe_mono log_at;        /* when it may be logged again */
        uint32_t pause_ms;
        char reason[MSG_SENTENCE_MAX]; /* what the node waits for, by the server; "" if nothing */
        struct tfe_mono until;         /* end of that wait; in the past if unknown */
    } waiting;
};

/* Logs what the agent waits for: at once if the sentence changed, otherwise after 10 s, 20 s
 * and so on up to 5 min. since_ms is how long it has waited, up_to_ms how long it may still
 * wait; 0 if unknown. */
void job_log_waiting(struct job_log *l, const char *sentence, uint32_t since_ms, uint32_t up_to_ms);

/* Logs an entry of the core. */
void job_log_trace(struct job_log *l, const struct agent_trace *trace);
/* Logs the parts of an event that only users need. Call it before the core handles the event. */
void job_log_event(struct job_log *l, const struct agent_event *event);
/* Records the start of trainers. */
void job_log_begin(struct job_log *l, uint32_t rank);

/* Prints why the agent ends. sentence may be NULL. Omits a trainer's last lines if they are the
 * ones that were shown on the agent's stderr. has_run_key: the agent was started with --run. */
void job_log_end(const struct job_log *l, int code, const char *sentence, bool has_run_key);

#endif
