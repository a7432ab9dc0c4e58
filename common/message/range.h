/* common/message/range.h: ranges of values on the wire. The codec enforces them, so that a core
 * never handles an absurd size. Pure. */
#ifndef TFE_COMMON_MESSAGE_RANGE_H
#define TFE_COMMON_MESSAGE_RANGE_H

#include <stdint.h>

#define MSG_NPROC_MAX 64u        /* trainers per node; machines have fewer accelerators */
#define MSG_NODES_MAX 65536u     /* nodes of a job, design 3.2 */
#define MSG_TAIL_MAX 4096u       /* bytes of the stderr tail in EXITED */
#define MSG_ROWS_PER_CHUNK 512u  /* rows of one TABLE, which must also fit one frame */
#define MSG_SENTENCE_MAX 1024u   /* bytes of a sentence for display */
#define MSG_NODE_SECRET_CHARS 64 /* characters of a node secret: 32 bytes in hexadecimal */
#define MSG_SCOPE_MAX 64u        /* characters of a job pattern */
#define MSG_KEY_LABEL_MAX 64u    /* bytes of a key's label */
#define MSG_KEY_USES_MAX                                                                           \
    100u /* maximum number of nodes to which one token may be restricted; their ids are stored */
#define MSG_KEY_NODES_MAX 4096u  /* bytes of the list of nodes that use a key */
#define MSG_KEY_HEX 32u          /* characters of a key's id */
#define MSG_CERTIFICATE_MAX 113u /* bytes of a node key's certificate */
#define MSG_TOKEN_MAX 160u       /* characters of a token, as in token.h */
#define MSG_AUDIT_ABOUT_MAX 256u /* bytes of an audit row's subject, including the NUL */
#define MSG_METRICS_MAX 16u      /* metrics in one METRICS */
#define MSG_PLACE_MAX 1023u      /* bytes of a place of artifacts */
#define MSG_METRIC_NAME_MAX 32u  /* characters of a metric's name */
#define MSG_EVENTS_MAX 1000u     /* rows in the response to one EVENTS */
#define MSG_PIDS_MAX 64u         /* process ids in one PROCESSES, per kind */
#define MSG_DURATION_MAX_MS                                                                        \
    (30u * 24u * 3600u * 1000u) /* maximum of any duration on the wire: 30 days */
/* Trainer output on the wire: bytes of lines in one message, credit charged per message in
 * addition, and maximum credit of an agent. */
#define MSG_LOG_TEXT_MAX 4096u
#define MSG_LOG_COST 64u
#define MSG_LOG_WINDOW_MAX 1048576u
/* Maximum of epochs and SAVE numbers, which count up without end: 53 bits, so that JSON readers
 * represent them exactly. A node's report raises them to MSG_EPOCH_LIMIT, half of it, at most: a
 * false report cannot exhaust them or make later honest reports look absurd. */
#define MSG_NUMBER_MAX ((UINT64_C(1) << 53) - 1)
#define MSG_EPOCH_LIMIT (UINT64_C(1) << 52)
/* Distance above the server's own epoch and run up to which a single node's report is believed.
 * Honest jobs never count as far, and steps of this size cannot reach the maximum. */
#define MSG_LEAP (UINT64_C(1) << 20)
#define MSG_RUN_MAX ((uint32_t)INT32_MAX)
#define MSG_STEP_MAX                                                                               \
    ((uint64_t)INT64_MAX) /* maximum step that scripts may report, PROTOCOL.md section 10 */

/* "Not set": the setting of the receiving side applies. */
#define MSG_UNSET UINT32_MAX

/* X-macro helper: one enumerator from a row (enumerator, number, name). */
#define TFE_ENUMERATOR(NAME, number, name) NAME = (number),

#endif
