/* agent/preemption/notice_selection.h: selects the sources of termination notices (--notice
 * and related options). */
#ifndef TFE_AGENT_PREEMPTION_NOTICE_SELECTION_H
#define TFE_AGENT_PREEMPTION_NOTICE_SELECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/text/reason.h"

#define NOTICE_PATH_MAX 1023
/* Maximum length of "http://HOST:PORT", with IPv6 in brackets. */
#define NOTICE_PLACE_MAX (TFE_HOST_MAX + 15)

enum notice_from {
    FROM_AWS,
    FROM_GCE,
    FROM_AZURE,
    FROM_FILE,
    FROM_COMMAND,
    FROM_SIGNAL,
    FROM__COUNT
};

/* How a source is selected. ON: by name or by the firmware. AUTO: tried at the configured
 * address until the response shows that it is another cloud's service. */
enum source_mode { SOURCE_OFF, SOURCE_AUTO, SOURCE_ON };

struct notice_selection {
    enum source_mode modes[FROM__COUNT];
    char file[NOTICE_PATH_MAX + 1];
    const char *command; /* borrowed from the parsed text */
    int signo;           /* signal number for FROM_SIGNAL */
    /* address of the clouds' metadata services, or "" if not configured */
    char place[NOTICE_PLACE_MAX + 1];
};

/* Parsers of option values; each stores into a struct notice_selection.
 *
 * Parses "auto", "none", or a list of aws, gce, azure, auto, file:PATH and cmd:COMMAND; cmd:
 * must come last, because its command may contain commas. Keeps signo and place. text must
 * outlive the choice. Returns TFE_EINVAL with reason and leaves *choice unchanged. */
int notice_selection_parse(void *choice, const char *text,
                           struct tfe_reason *reason) TFE_MUST_CHECK;

/* Parses a signal name with or without SIG; only signals that have no other meaning for the
 * agent are allowed. Returns TFE_EINVAL. */
int notice_selection_signal(void *choice, const char *text,
                            struct tfe_reason *reason) TFE_MUST_CHECK;

/* Parses HOST[:PORT] with optional "http://" and trailing "/". Returns TFE_EINVAL. */
int notice_selection_place(void *choice, const char *text,
                           struct tfe_reason *reason) TFE_MUST_CHECK;

/* Completes a choice without an address: sets the link-local address that all clouds use, and
 * replaces AUTO by ON for the cloud that the firmware in sys ("/sys") names and by OFF for
 * the others, because another service may answer at that address. */
void notice_selection_complete(struct notice_selection *choice, const char *sys);

#endif
