/* common/message/job_spec.c: defaults, validation and comparison of job settings by the table of
 * job_spec.h. */
#include "common/message/job_spec.h"

#include <string.h>

#define JOB_SPEC_ROW(name, type, kind, who, low, high, setting, tag, ...)                          \
    {#name, offsetof(struct job_spec, name), JOB_SPEC_##kind, JOB_SPEC_##who, low, high, setting,  \
     tag},
const struct job_spec_field job_spec_fields[JOB_SPEC_N] = {JOB_SPEC_FIELDS(JOB_SPEC_ROW)};
#undef JOB_SPEC_ROW

uint32_t job_restart_policy(uint32_t policies, uint32_t task)
{
    return policies >> (2 * task) & 3u;
}

uint32_t job_restart_set(uint32_t policies, uint32_t task, uint32_t policy)
{
    return (policies & ~(3u << (2 * task))) | policy << (2 * task);
}

/* Returns a COUNT or DURATION; only these have ranges and can be OPTIONAL fields. */
static uint32_t *number(struct job_spec *spec, const struct job_spec_field *field)
{
    return (void *)((char *)spec + field->offset);
}

static const uint32_t *number_of(const struct job_spec *spec, const struct job_spec_field *field)
{
    return (const void *)((const char *)spec + field->offset);
}

static bool is_number(const struct job_spec_field *field)
{
    return field->kind == JOB_SPEC_COUNT || field->kind == JOB_SPEC_DURATION;
}

bool job_needs_all_workers(const struct job_spec *spec)
{
    return spec->all_workers && !spec->chief;
}

void job_spec_init(struct job_spec *spec)
{
    memset(spec, 0, sizeof(*spec));
    for (size_t i = 0; i < JOB_SPEC_N; i++) {
        const struct job_spec_field *field = &job_spec_fields[i];
        if (is_number(field)) {
            *number(spec, field) = field->who == JOB_SPEC_OPTIONAL ? MSG_UNSET : field->setting;
        }
    }
}

void job_spec_fill(struct job_spec *spec, const struct job_spec *settings)
{
    for (size_t i = 0; i < JOB_SPEC_N; i++) {
        const struct job_spec_field *field = &job_spec_fields[i];
        if (field->who == JOB_SPEC_OPTIONAL && *number(spec, field) == MSG_UNSET) {
            *number(spec, field) = *number_of(settings, field);
        }
    }
}

bool job_spec_is_valid(const struct job_spec *spec)
{
    for (size_t i = 0; i < JOB_SPEC_N; i++) {
        const struct job_spec_field *field = &job_spec_fields[i];
        if (!is_number(field)) {
            continue;
        }
        uint32_t value = *number_of(spec, field);
        bool is_open = field->who == JOB_SPEC_OPTIONAL && value == MSG_UNSET;
        if (!is_open && (value < field->min || value > field->max)) {
            return false;
        }
    }
    return spec->min_nodes <= spec->max_nodes;
}

static size_t size_of(const struct job_spec_field *field)
{
    switch (field->kind) {
    case JOB_SPEC_COUNT:
    case JOB_SPEC_DURATION:
        return sizeof(uint32_t);
    case JOB_SPEC_FLAG:
        return sizeof(bool);
    case JOB_SPEC_DIGEST:
        return sizeof(uint64_t);
    }
    return 0;
}

bool job_spec_agrees(const struct job_spec *a, const struct job_spec *b)
{
    for (size_t i = 0; i < JOB_SPEC_N; i++) {
        const struct job_spec_field *field = &job_spec_fields[i];
        if (field->who == JOB_SPEC_SAME &&
            memcmp((const char *)a + field->offset, (const char *)b + field->offset,
                   size_of(field)) != 0) {
            return false;
        }
    }
    return true;
}
