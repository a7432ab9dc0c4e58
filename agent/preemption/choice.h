/* agent/preemption/choice.h: selects the sources of termination notices (--notice
 * and related options). */
#ifndef TFE_AGENT_PREEMPTION_CHOICE_H
#define TFE_AGENT_PREEMPTION_CHOICE_H

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

/* How a source is selected. ASKED: by name or by the firmware. AUTO: tried at the configured
 * address until the response shows that it is another cloud's service. */
enum notice_wanted { WANTED_NEVER, WANTED_AUTO, WANTED_ASKED };

struct notice_choice {
    enum notice_wanted wanted[FROM__COUNT];
    char file[NOTICE_PATH_MAX + 1];
    const char *command; /* borrowed from the parsed text */
    int signo;           /* signal number for FROM_SIGNAL */
    /* address of the clouds' metadata services, or "" if not configured */
    char place[NOTICE_PLACE_MAX + 1];
};

/* Parsers of option values; each stores into a struct notice_choice.
 *
 * Parses "auto", "none", or a list of aws, gce, azure, auto, file:PATH and cmd:COMMAND; cmd:
 * must come last, because its command may contain commas. Keeps signo and place. text must
 * outlive the choice. Returns TFE_EINVAL with reason and leaves *choice unchanged. */
int notice_choice_parse(void *choice, const char *text, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Parses a signal name with or without SIG; only signals that have no other meaning for the
 * agent are allowed. Returns TFE_EINVAL. */
int notice_choice_signal(void *choice, const char *text, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Parses HOST[:PORT] with optional "http://" and trailing "/". Returns TFE_EINVAL. */
int notice_choice_place(void *choice, const char *text, struct tfe_reason *reason) TFE_MUST_CHECK;

/* Completes a choice without an address: sets the link-local address that all clouds use, and
 * replaces AUTO by ASKED for the cloud that the firmware in sys ("/sys") names and by NEVER for
 * the others, because another service may answer at that address. */
void notice_choice_settle(struct notice_choice *choice, const char *sys);

#endif
