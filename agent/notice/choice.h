/* agent/notice/choice.h: which sources of notices are watched, as --notice and its relatives say.
 */
#ifndef TFE_AGENT_NOTICE_CHOICE_H
#define TFE_AGENT_NOTICE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"
#include "common/net/http.h"
#include "common/net/why.h"

#define NOTICE_PATH_MAX 1023

enum notice_from {
    FROM_AWS,
    FROM_GCE,
    FROM_AZURE,
    FROM_FILE,
    FROM_COMMAND,
    FROM_SIGNAL,
    FROM__COUNT
};

/* NEVER: not watched. ASKED: by name. AUTO: if it answers at the start. */
enum notice_wanted { WANTED_NEVER, WANTED_AUTO, WANTED_ASKED };

struct notice_choice {
    enum notice_wanted wanted[FROM__COUNT];
    char file[NOTICE_PATH_MAX + 1];
    const char *command; /* borrowed from the text */
    int signo;           /* FROM_SIGNAL */
    struct http_place places[FROM_AZURE + 1];
};

/* "auto", "none", or a list of aws, gce, azure, auto, file:PATH, cmd:COMMAND; cmd: comes last and
 * takes the rest, with its commas. text must outlive the choice; signo stays as it is. TFE_EINVAL:
 * nothing changed, why says what is wrong. */
int notice_choice_parse(struct notice_choice *choice, const char *text,
                        struct tfe_why *why) TFE_MUST_CHECK;

/* A signal's name with or without SIG, of those that mean nothing else to the agent. TFE_EINVAL. */
int notice_choice_signal(struct notice_choice *choice, const char *text,
                         struct tfe_why *why) TFE_MUST_CHECK;

/* Reads where the wanted clouds' services are from TFE_AWS_IMDS_URL, GCE_METADATA_HOST and
 * TFE_AZURE_IMDS_URL; the default is the link-local address that all of them use. TFE_EINVAL: why
 * names the variable. */
int notice_choice_places(struct notice_choice *choice, struct tfe_why *why) TFE_MUST_CHECK;

#endif
