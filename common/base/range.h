/* common/base/range.h: how large what the protocol says may be. The codec enforces it on everything
 * it decodes, so that a core sees no absurd size. Pure. */
#ifndef TFE_COMMON_BASE_RANGE_H
#define TFE_COMMON_BASE_RANGE_H

#include <stdint.h>

#define MSG_NPROC_MAX 64u        /* trainers of one node; a machine has fewer accelerators */
#define MSG_NODES_MAX 65536u     /* members of a job, design 3.2 */
#define MSG_TAIL_MAX 4096u       /* bytes of error tail that travel with EXITED */
#define MSG_ROWS_PER_CHUNK 512u  /* rows of one TABLE; a chunk must also fit one frame */
#define MSG_SENTENCE_MAX 1024u   /* bytes of a sentence for a person */
#define MSG_NODE_SECRET_CHARS 64 /* of what proves a node id: 32 bytes, hexadecimal */
#define MSG_SCOPE_MAX 64u        /* characters of a pattern of jobs */
#define MSG_KEY_LABEL_MAX 64u    /* bytes of what people call a key */
#define MSG_KEY_USES_MAX 100u    /* nodes that one token may be for; their ids are listed */
#define MSG_KEY_NODES_MAX 4096u  /* bytes of that list */
#define MSG_KEY_HEX 32u          /* characters of a key's id */
#define MSG_CERTIFICATE_MAX 113u /* bytes of what a node key is good for */
#define MSG_TOKEN_MAX 160u       /* characters of a token, as token.h */
#define MSG_AUDIT_ABOUT_MAX 256u /* bytes of what an order is about, with the NUL */
#define MSG_METRICS_MAX 16u      /* numbers that a script tells at once */
#define MSG_METRIC_NAME_MAX 32u  /* characters of the name of one */
#define MSG_EVENTS_MAX 1000u     /* rows that answer one EVENTS */
#define MSG_PIDS_MAX 64u         /* process ids in one PROCESSES, per kind */
#define MSG_DURATION_MAX_MS (30u * 24u * 3600u * 1000u) /* any duration on the wire: 30 days */
/* What trainers print, on its way to who asks for it: the bytes of one message's lines, what such a
 * message counts besides them, and what an agent may say of it unasked. */
#define MSG_LOG_TEXT_MAX 4096u
#define MSG_LOG_COST 64u
#define MSG_LOG_WINDOW_MAX 1048576u
/* Epochs and the numbers of SAVEs count up for ever. They are 53 bits, so that JSON readers keep
 * them whole. A node's word raises them to half of that at most: a liar cannot exhaust them, nor
 * make the honest reports that follow look absurd. */
#define MSG_NUMBER_MAX ((UINT64_C(1) << 53) - 1)
#define MSG_EPOCH_LIMIT (UINT64_C(1) << 52)
/* What one node says of epochs and runs is believed so far above what the server knows itself: far
 * more than a job that is honest ever counts, and by such steps nobody comes to the end. */
#define MSG_LEAP (UINT64_C(1) << 20)
#define MSG_RUN_MAX ((uint32_t)INT32_MAX)
#define MSG_STEP_MAX ((uint64_t)INT64_MAX) /* as scripts tell them, PROTOCOL.md section 10 */

/* "Nobody has a wish about it": the setting of whoever reads it counts. */
#define MSG_UNSET UINT32_MAX

/* A row of a list of words: the enumerator, its number, its name. */
#define TFE_ENUMERATOR(NAME, number, name) NAME = (number),

#endif
