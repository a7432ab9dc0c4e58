/* tests/wishes.h: what jobs want where a test does not care, whatever there is to want. */
#ifndef TFE_TESTS_WISHES_H
#define TFE_TESTS_WISHES_H

#include "common/message/job_spec.h"
#include "common/message/msg.h"

/* A job of these sizes in which nobody has a wish. */
static inline struct job_spec no_wishes(uint32_t min, uint32_t max, uint32_t nproc)
{
    struct job_spec spec;
    job_spec_init(&spec);
    spec.min_nodes = min;
    spec.max_nodes = max;
    spec.nproc = nproc;
    return spec;
}

/* The wishes of a server that was given none. */
static inline struct job_spec usual_wishes(void)
{
    return (struct job_spec){
#define WISHES_SETTING(name, type, kind, who, least, most, setting, ...) .name = setting,
        JOB_SPEC_FIELDS(WISHES_SETTING)
#undef WISHES_SETTING
    };
}

#endif
