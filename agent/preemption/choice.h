/* agent/preemption/choice.h: which sources of notices are watched, as --notice and its relatives
 * say.
 */
#ifndef TFE_AGENT_PREEMPTION_CHOICE_H
#define TFE_AGENT_PREEMPTION_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/base/id.h"
#include "common/base/reason.h"

#define NOTICE_PATH_MAX 1023
/* "http://HOST:PORT", IPv6 in brackets. */
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

/* NEVER: not watched. ASKED: by name, or the firmware names it. AUTO: tried at a place that was
 * named, until an answer shows that it is another cloud's. */
enum notice_wanted { WANTED_NEVER, WANTED_AUTO, WANTED_ASKED };

struct notice_choice {
    enum notice_wanted wanted[FROM__COUNT];
    char file[NOTICE_PATH_MAX + 1];
    const char *command;              /* borrowed from the text */
    int signo;                        /* FROM_SIGNAL */
    char place[NOTICE_PLACE_MAX + 1]; /* of the clouds' services; empty: not named */
};

/* The next three read the value of an option into a struct notice_choice.
 *
 * "auto", "none", or a list of aws, gce, azure, auto, file:PATH, cmd:COMMAND; cmd: comes last and
 * takes the rest, with its commas. text must outlive the choice; signo and place stay as they are.
 * TFE_EINVAL: nothing changed, why says what is wrong. */
int notice_choice_parse(void *choice, const char *text, struct tfe_reason *reason) TFE_MUST_CHECK;

/* A signal's name with or without SIG, of those that mean nothing else to the agent. TFE_EINVAL. */
int notice_choice_signal(void *choice, const char *text, struct tfe_reason *reason) TFE_MUST_CHECK;

/* HOST[:PORT], perhaps with "http://" before and "/" behind it. TFE_EINVAL. */
int notice_choice_place(void *choice, const char *text, struct tfe_reason *reason) TFE_MUST_CHECK;

/* If no place was named: sets the link-local address that all clouds use. Of the clouds that are
 * wanted by AUTO, the one that sys ("/sys") names becomes ASKED, and the others NEVER: at their
 * address somebody else may answer. */
void notice_choice_settle(struct notice_choice *choice, const char *sys);

#endif
