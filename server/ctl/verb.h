/* server/ctl/verb.h: what a subcommand of tfe-ctl is; main.c has the table of them. */
#ifndef TFE_SERVER_CTL_VERB_H
#define TFE_SERVER_CTL_VERB_H

#include "server/ctl/settings.h"

struct ctl_verb {
    const char *name;
    const char *usage; /* "tfe-ctl status [OPTIONS] [JOB]" */
    const char *about; /* one line, in both -h */
    /* Options of this verb alone, besides ctl_options; their fields are in struct ctl_settings. */
    const struct option_spec *options;
    size_t n_options;
    int operands_min, operands_max;
    /* Exit code of the program. Prints results on stdout, one sentence on stderr if it fails. */
    int (*run)(const struct ctl_settings *settings, char **operands, int n_operands);
};

extern const struct ctl_verb ctl_verb_status;
extern const struct ctl_verb ctl_verb_nodes;
extern const struct ctl_verb ctl_verb_drain;
extern const struct ctl_verb ctl_verb_evict;
extern const struct ctl_verb ctl_verb_stop;
extern const struct ctl_verb ctl_verb_epochs;
extern const struct ctl_verb ctl_verb_backup;

#endif
