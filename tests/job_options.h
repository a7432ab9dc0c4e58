/* tests/job_options.h: job options for tests that do not depend on them. */
#ifndef TFE_TESTS_JOB_OPTIONS_H
#define TFE_TESTS_JOB_OPTIONS_H

#include "common/message/job_spec.h"
#include "common/message/msg.h"

/* Returns a job of this size in which no other option is set. */
static inline struct job_spec job_of_size(uint32_t min, uint32_t max, uint32_t nproc)
{
    struct job_spec spec;
    job_spec_init(&spec);
    spec.min_nodes = min;
    spec.max_nodes = max;
    spec.nproc = nproc;
    return spec;
}

/* Returns the default options of a server without settings. */
static inline struct job_spec default_options(void)
{
    return (struct job_spec){
#define OPTION_SETTING(name, type, kind, who, min, max, setting, ...) .name = setting,
        JOB_SPEC_FIELDS(OPTION_SETTING)
#undef OPTION_SETTING
    };
}

#endif
