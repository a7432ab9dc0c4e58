/* server/ctl/settings.h: the options that every verb of tfe-ctl takes. */
#ifndef TFE_SERVER_CTL_SETTINGS_H
#define TFE_SERVER_CTL_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/options.h"

/* Texts are borrowed from argv and the environment. */
struct ctl_settings {
    const char *endpoint;
    const char *token;
    const char *token_file;
    const char *state_dir;
    uint32_t timeout_ms;
    bool json;
    bool csv;       /* epochs */
    uint32_t in_ms; /* drain; MSG_UNSET: no time was named */
    bool wait;      /* drain */
};

/* Exit codes of tfe-ctl, besides EXIT_SUCCESS. 69 and 77 are sysexits(3)'s. */
enum ctl_exit {
    CTL_FAILED = 1, /* no such job or node, and all that has no code of its own */
    CTL_USAGE = 2,
    CTL_UNREACHED = 69,
    CTL_UNAUTHORISED = 77
};

extern const struct option_spec ctl_options[];
extern const size_t ctl_n_options;

#endif
