/* agent/output/log_place.c: implementation of log_place.h. */
#include "agent/output/log_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/cli/options.h"

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
    snprintf(ret, LOG_NAME_MAX, "%s%s.%s", place->owner, more, msg_stream_name(place->stream));
}

static bool skip_word(const char **at, const char *word)
{
    size_t n = strlen(word);
    bool is_there = strncmp(*at, word, n) == 0;
    *at += is_there ? n : 0;
    return is_there;
}

bool log_folder_parse(const char *name, const char *prefix, uint64_t *ret)
{
    return skip_word(&name, prefix) && options_digits(&name, UINT64_MAX, ret) && *name == '\0';
}

bool log_name_parse(const char *name, struct log_name *ret)
{
    static const char *const kinds[] = {"rank-", "chief-", "worker-", "ps-", "evaluator-"};
    const char *at = name;
    uint64_t index;
    uint64_t again = 1;
    size_t i = 0;
    while (i < sizeof(kinds) / sizeof(kinds[0]) && !skip_word(&at, kinds[i])) {
        i++;
    }
    if (at == name || !options_digits(&at, UINT32_MAX, &index) || at - name >= OUTPUT_NAME_MAX) {
        return false;
    }
    *ret = (struct log_name){.index = (uint32_t)index, .stream = STREAM_STDOUT};
    memcpy(ret->owner, name, (size_t)(at - name));
    if (skip_word(&at, "-") && !options_digits(&at, UINT32_MAX, &again)) {
        return false;
    }
    if (skip_word(&at, ".stderr")) {
        ret->stream = STREAM_STDERR;
    } else if (!skip_word(&at, ".stdout")) {
        return false;
    }
    ret->again = (uint32_t)again;
    ret->is_old = skip_word(&at, LOG_OLD);
    return *at == '\0';
}
