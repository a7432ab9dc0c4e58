/* server/scale_beside.h: --scale-command: the process that runs it. The server may run no program
 * (keeper.h), and waits for none. */
#ifndef TFE_SERVER_SCALE_BESIDE_H
#define TFE_SERVER_SCALE_BESIDE_H

#include <stdint.h>

#include "common/base/error.h"
#include "common/net/why.h"

/* What goes in, and what comes out. */
#define SCALE_TEXT_MAX 65536u
/* It is run by one at a time, whatever became of a server before: whoever runs it holds this file
 * of the state directory locked. */
#define SCALE_LOCK "scale.lock"

struct scale_settings {
    const char *command; /* NULL: none */
    uint32_t wait_ms;
    uint32_t timeout_ms;
};

/* How a run ended, where no exit status (0 to 255; 128 and the signal) says it. */
enum scale_end {
    SCALE_LATE = -1,        /* ended, for it took too long */
    SCALE_BUSY = -2,        /* not begun: that of a server before still runs */
    SCALE_NOT_STARTED = -3, /* no process, memory or lock */
};

/* What the keeper answers: as much text as the message is long. */
struct scale_answer {
    int32_t end; /* an exit status, or one of those */
    char text[SCALE_TEXT_MAX + 1];
};
#define SCALE_ANSWER_HEAD sizeof(int32_t)

/* Starts the keeper. *ret as keeper_start's, of SOCK_SEQPACKET: each message is the text for one
 * run (at most SCALE_TEXT_MAX bytes), answered by one struct scale_answer. TFE_ESYS, TFE_ETOOBIG.
 */
int scale_beside_start(int *ret, const struct scale_settings *settings, const char *state_dir,
                       struct tfe_why *why) TFE_MUST_CHECK;

#endif
