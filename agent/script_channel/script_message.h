/* agent/script_channel/script_message.h: what scripts and agent say to each other, one JSON object
 * a datagram (PROTOCOL.md, section 10). */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_SCRIPT_MESSAGE_H
#define TFE_AGENT_SCRIPT_CHANNEL_SCRIPT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/base/reason.h"

/* A checkpoint's path (PATH_MAX) fits in, escaped or not. */
#define SCRIPT_MESSAGE_MAX 8192
#define SCRIPT_PATH_MAX 4096
/* What the agent says is numbers, and why there is no memory. */
#define SCRIPT_ANSWER_MAX 512

/* Numbers that a script tells, under names. */
#define SCRIPT_METRICS_MAX 16
#define SCRIPT_METRIC_NAME_MAX 32
struct script_metrics {
    size_t n;
    struct {
        char name[SCRIPT_METRIC_NAME_MAX + 1];
        double value;
    } v[SCRIPT_METRICS_MAX];
};

/* One more, or another value of one; passed over where there are too many, or it is not finite.
 * Characters that a name cannot have become '_', and it is cut. */
void script_metrics_add(struct script_metrics *m, const char *name, double value);

enum script_word {
    SCRIPT_HELLO,
    SCRIPT_PROGRESS,
    SCRIPT_CHECKPOINT,
    SCRIPT_MEMORY,
    SCRIPT_HANDLER,
    SCRIPT_REMARK,
    SCRIPT_KEPT,
    SCRIPT_ENDS
};

/* What only our hooks in a script say (agent/python/tfe_hooks.py). */
enum script_remark { REMARK_UNKNOWN, REMARK_HOOK_FAILED, REMARK_KERAS3_FIT, REMARK_STRATEGY_MADE };
#define SCRIPT_WHY_MAX 240

struct script_message {
    enum script_word word;
    uint64_t epoch;
    uint32_t rank;
    pid_t pid;        /* HELLO: where it listens; else 1 */
    bool listens;     /* HELLO */
    bool partitioned; /* HELLO: its checkpoints fit another number of ps */
    bool handles;     /* HANDLER: SIGTERM, with a handler of the script's own */
    bool has_step;    /* CHECKPOINT; PROGRESS and KEPT have one */
    uint64_t step;    /* PROGRESS, CHECKPOINT, KEPT */
    bool seen;        /* PROGRESS, CHECKPOINT: by a hook; what a script tells itself goes before */
    bool restored;    /* PROGRESS: the step of a checkpoint; none of this epoch's is done yet */
    uint64_t answers; /* CHECKPOINT, KEPT: number of the newest save known when it began; 0 */
    uint64_t samples, total;       /* PROGRESS; 0: not said */
    struct script_metrics metrics; /* PROGRESS */
    uint32_t code;                 /* ENDS: the exit status that is to follow */
    uint64_t bytes;                /* MEMORY: at least so many; 0: what there is */
    enum script_remark remark;     /* REMARK */
    char reason[SCRIPT_WHY_MAX + 1];
};

/* Reads a datagram. Strict about what is known: one object, no member twice, whole numbers that are
 * not negative; members that are not known are ignored. TFE_EUNKNOWN: of a type that is not known.
 * TFE_EINVAL: anything else. ret is unchanged then, and why says what is wrong. */
int script_message_read(const char *bytes, size_t n, struct script_message *ret,
                        struct tfe_reason *reason) TFE_MUST_CHECK;

/* Writes save and stop; return the length, 0 without memory. has_within: else the switch has no
 * deadline. in_memory: a state that is kept in memory will do. */
size_t script_message_save(char ret[SCRIPT_ANSWER_MAX], uint64_t epoch, uint64_t number,
                           bool has_within, uint64_t within_ms, bool in_memory);
size_t script_message_stop(char ret[SCRIPT_ANSWER_MAX], uint64_t epoch, uint64_t grace_ms,
                           bool in_memory);
/* why "": none. */
size_t script_message_memory(char ret[SCRIPT_ANSWER_MAX], uint64_t epoch, uint64_t bytes,
                             const char *reason);

#endif
