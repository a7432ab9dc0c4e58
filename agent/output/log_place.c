/* agent/output/log_place.c: names of log files. */
#include "agent/output/log_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const endings[LOG_STREAMS] = {
    [LOG_STDOUT] = ".stdout",
    [LOG_STDERR] = ".stderr",
};

void log_place_folder(const struct log_place *place, char ret[LOG_FOLDER_MAX])
{
    snprintf(ret, LOG_FOLDER_MAX, "%s/run-%" PRIu32 "/epoch-%" PRIu64, place->job.text, place->run,
             place->epoch);
}

void log_place_name(const struct log_place *place, unsigned again, char ret[LOG_NAME_MAX])
{
    char more[16] = "";
    if (again > 1) {
        snprintf(more, sizeof(more), "-%u", again);
    }
    snprintf(ret, LOG_NAME_MAX, "rank-%" PRIu32 "%s%s", place->rank, more, endings[place->stream]);
}

/* What is behind prefix and at least one digit; NULL: it is not so. */
static const char *after_number(const char *name, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0) {
        return NULL;
    }
    size_t digits = strspn(name + n, "0123456789");
    return digits ? name + n + digits : NULL;
}

static bool is_number(const char *name, const char *prefix)
{
    const char *rest = after_number(name, prefix);
    return rest && !*rest;
}

bool log_name_is_run(const char *name)
{
    return is_number(name, "run-");
}

bool log_name_is_epoch(const char *name)
{
    return is_number(name, "epoch-");
}

bool log_name_is_file(const char *name)
{
    const char *rest = after_number(name, "rank-");
    if (rest && *rest == '-') {
        rest = after_number(rest, "-");
    }
    for (size_t i = 0; rest && i < LOG_STREAMS; i++) {
        size_t n = strlen(endings[i]);
        if (strncmp(rest, endings[i], n) == 0) {
            return !rest[n] || strcmp(rest + n, LOG_OLD) == 0;
        }
    }
    return false;
}
