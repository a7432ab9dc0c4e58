/* agent/script_channel/script_message.h: messages between scripts and agent: one JSON object per
 * datagram (PROTOCOL.md, section 10). */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_SCRIPT_MESSAGE_H
#define TFE_AGENT_SCRIPT_CHANNEL_SCRIPT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

/* Maximum length of a message in bytes; a checkpoint's path (PATH_MAX) fits even with JSON
 * escapes. */
#define SCRIPT_MESSAGE_MAX 8192
#define SCRIPT_PATH_MAX 4096
/* Messages of the agent contain numbers and a reason. */
#define SCRIPT_REPLY_MAX 512

/* Named numbers that a script reports. */
#define SCRIPT_METRICS_MAX 16
#define SCRIPT_METRIC_NAME_MAX 32
struct script_metrics {
    size_t n;
    struct {
        char name[SCRIPT_METRIC_NAME_MAX + 1];
        double value;
    } v[SCRIPT_METRICS_MAX];
};

/* Adds or updates a metric. Ignores values that are not finite and metrics beyond the limit.
 * Invalid characters in the name become '_', and long names are truncated. */
void script_metrics_add(struct script_metrics *m, const char *name, double value);

enum script_message_type {
    SCRIPT_HELLO,
    SCRIPT_PROGRESS,
    SCRIPT_CHECKPOINT,
    SCRIPT_MEMORY,
    SCRIPT_HANDLER,
    SCRIPT_REMARK,
    SCRIPT_SNAPSHOT,
    SCRIPT_ENDS,
    SCRIPT_ARTIFACT
};

/* Remarks that only the hooks in a script send (agent/python/tfe_hooks.py). */
enum script_remark {
    REMARK_UNKNOWN,
    REMARK_HOOK_FAILED,
    REMARK_KERAS3_FIT,
    REMARK_STRATEGY_MADE,
    REMARK_IMPORTED /* reason: the module */
};
#define SCRIPT_REASON_MAX 240
#define SCRIPT_PLACE_MAX MSG_PLACE_MAX /* maximum length of the place of artifacts */

struct script_message {
    enum script_message_type type;
    uint64_t epoch;
    uint32_t rank;
    pid_t pid; /* HELLO, HANDLER: the sender's pid, which names the script's socket; otherwise 1 */
    bool listens;     /* HELLO: the script accepts messages */
    bool partitioned; /* HELLO: checkpoints are independent of the number of parameter servers */
    bool handles;     /* HANDLER: the script has its own handler of SIGTERM */
    bool has_step;    /* CHECKPOINT: step is valid; always true for PROGRESS and KEPT */
    uint64_t step;    /* PROGRESS, CHECKPOINT, KEPT */
    /* PROGRESS, CHECKPOINT: reported by a hook; the script's own reports take precedence */
    bool seen;
    bool restored; /* PROGRESS: step of a restored checkpoint; no step of this epoch is complete */
    /* CHECKPOINT, KEPT: number of the newest save request known at its start, or 0 */
    uint64_t answers;
    uint64_t samples, total;       /* PROGRESS; 0 if not reported */
    struct script_metrics metrics; /* PROGRESS */
    uint32_t code;                 /* ENDS: exit status of the script */
    uint64_t bytes;                /* MEMORY: minimum number of bytes; 0 for the existing memory */
    enum script_remark remark;     /* REMARK */
    enum tfe_artifact artifact;    /* ARTIFACT: state of the copy; bytes and files are its size */
    uint64_t files;
    char place[SCRIPT_PLACE_MAX + 1];   /* ARTIFACT: where the files are or will be, escaped */
    char reason[SCRIPT_REASON_MAX + 1]; /* REMARK; ARTIFACT: error of an attempt; escaped */
};

/* Parses a datagram strictly: one object, no duplicate members, known numbers non-negative
 * integers; unknown members are ignored. Returns TFE_EUNKNOWN for an unknown type and TFE_EINVAL
 * for other errors, with reason set and *ret unchanged. */
int script_message_read(const char *bytes, size_t n, struct script_message *ret,
                        struct tfe_reason *reason) TFE_MUST_CHECK;

/* Build a save or stop message; return its length, or 0 if out of memory. Without has_within the
 * switch has no deadline. in_memory means that a state kept in memory is enough. */
size_t script_message_save(char ret[SCRIPT_REPLY_MAX], uint64_t epoch, uint64_t number,
                           bool has_within, uint64_t within_ms, bool in_memory);
size_t script_message_stop(char ret[SCRIPT_REPLY_MAX], uint64_t epoch, uint64_t grace_ms,
                           bool in_memory);
/* Builds a memory message; returns its length, or 0 if out of memory. reason is
 * "" if there is none. */
size_t script_message_memory(char ret[SCRIPT_REPLY_MAX], uint64_t epoch, uint64_t bytes,
                             const char *reason);

#endif
