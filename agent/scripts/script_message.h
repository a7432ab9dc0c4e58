/* agent/scripts/script_message.h: what scripts and agent say to each other, one JSON object a
 * datagram (PROTOCOL.md, section 10). */
#ifndef TFE_AGENT_SCRIPTS_SCRIPT_MESSAGE_H
#define TFE_AGENT_SCRIPTS_SCRIPT_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

/* A checkpoint's path (PATH_MAX) fits in, escaped or not. */
#define SCRIPT_MESSAGE_MAX 8192
#define SCRIPT_PATH_MAX 4096
/* What the agent says is numbers. */
#define SCRIPT_ANSWER_MAX 160

enum script_word { SCRIPT_HELLO, SCRIPT_PROGRESS, SCRIPT_CHECKPOINT };

struct script_message {
    enum script_word word;
    uint64_t epoch;
    uint32_t rank;
    pid_t pid;        /* HELLO: where it listens */
    bool listens;     /* HELLO */
    uint64_t step;    /* PROGRESS, CHECKPOINT */
    bool restored;    /* PROGRESS: the step of a checkpoint; none of this epoch's is done yet */
    uint64_t answers; /* CHECKPOINT: number of the newest save that it knew of when it began; 0 */
};

/* Reads a datagram. Strict about what is known: one object, no member twice, whole numbers that are
 * not negative; members that are not known are ignored. TFE_EUNKNOWN: of a type that is not known.
 * TFE_EINVAL: anything else; *ret_why is a static fragment. ret is unchanged then. */
int script_message_read(const char *bytes, size_t n, struct script_message *ret,
                        const char **ret_why) TFE_MUST_CHECK;

/* Writes save and stop; return the length. has_within: else the switch has no deadline. */
size_t script_message_save(char ret[SCRIPT_ANSWER_MAX], uint64_t epoch, uint64_t number,
                           bool has_within, uint64_t within_ms);
size_t script_message_stop(char ret[SCRIPT_ANSWER_MAX], uint64_t epoch, uint64_t grace_ms);

#endif
