/* server/ctl/settings.c: the options that every verb of tfe-ctl takes. */
#include "server/ctl/settings.h"

#include "common/base/msg.h"

#define FIELD(name) offsetof(struct ctl_settings, name)

const struct option_spec ctl_options[] = {
    {.name = "rdzv-endpoint",
     .kind = OPTION_TEXT,
     .argument = "HOST:PORT",
     .help = "the server (default: the one of this machine)",
     .offset = FIELD(endpoint)},
    {.name = "token-file",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .help = "file with the token (default: observer.token or admin.token of the state directory)",
     .offset = FIELD(token_file)},
    {.name = "token",
     .kind = OPTION_TEXT,
     .argument = "TOKEN",
     .help = "the token itself; other users of this machine can see it",
     .offset = FIELD(token)},
    {.name = "state-dir",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .help = "where a server of this machine keeps endpoint and tokens",
     .offset = FIELD(state_dir)},
    {.name = "timeout",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "10s",
     .help = "give up when the whole answer has not come by then",
     .offset = FIELD(timeout_ms),
     .min = 1,
     .max = MSG_DURATION_MAX_MS},
    {.name = "json",
     .kind = OPTION_FLAG,
     .help = "print one JSON object, for programs",
     .offset = FIELD(json)},
};
const size_t ctl_n_options = sizeof(ctl_options) / sizeof(ctl_options[0]);
