/* server/core/rebuild.h: rebuilds a job whose record is lost from its members' reports. */
#ifndef TFE_SERVER_CORE_REBUILD_H
#define TFE_SERVER_CORE_REBUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/time.h"
#include "common/message/msg.h"

struct job;
struct node;
struct rdzv;

/* What a node has reported of its part in the epoch that is being rebuilt. Written by rebuild.c. */
struct report {
    bool is_given;
    uint32_t slot;
    bool is_listening;
    bool has_ended;       /* its trainers have ended; code, signal and stopped are set */
    uint8_t code, signal; /* exit code and signal, as in EXITED */
    bool stopped;
    uint64_t restart; /* number of the RESTART that started its trainers */
};

/* The epoch that is being rebuilt, for a job without a record; epoch is 0 if none is. Written by
 * rebuild.c. */
struct rebuild {
    uint64_t epoch;
    uint32_t run;
    uint32_t nodes;
    uint32_t n_reported;
    uint64_t digest;
    enum tfe_cause cause;
    struct tfe_mono until;
    /* until when trainers may run whose nodes have reported and have left since */
    struct tfe_mono left_until;
    struct node *placeholder; /* fills the slots of members that have not reported; in no tree */
};

/* Returns true if what the JOIN reports of the running epoch can be used to rebuild the job. */
bool rebuild_needs_report(const struct rdzv *r, const struct job *job, const struct msg_join *join);
/* Returns true if what the JOIN reports is credible. */
bool rebuild_believes(const struct msg_join *join);
/* Reserves memory for rebuild_add_report. Returns 0 or TFE_ENOMEM. */
int rebuild_reserve(struct rdzv *r, struct job *job, const struct msg_join *join) TFE_MUST_CHECK;
/* Adds the node's report. Preconditions: rebuild_needs_report and rebuild_reserve. Returns false if
 * another node reports the same rank. */
bool rebuild_add_report(struct rdzv *r, struct node *node, const struct msg_join *join);
/* Note that the trainers of a node that reports listen, or have ended. Return false if the message
 * is about another epoch or the node does not report. */
bool report_note_listening(struct node *node, uint64_t epoch);
bool report_note_end(struct node *node, const struct msg_exited *exited);
/* Withdraws the node's report. */
void report_forget(struct node *node);

enum rebuild_step { REBUILD_WAITS, REBUILD_ADOPTED, REBUILD_GIVEN_UP };
enum rebuild_step rebuild_settle(struct rdzv *r, struct job *job);
/* After REBUILD_ADOPTED: applies the endings that nodes have reported meanwhile. */
void rebuild_apply_endings(struct rdzv *r, struct job *job);

#endif
