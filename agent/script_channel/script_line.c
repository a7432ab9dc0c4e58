/* agent/script_channel/script_line.c: implementation of script_line.h. */
#include "agent/script_channel/script_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/base/clock.h"
#include "common/cli/log.h"

/* Longer lines are ignored, because the time of a match may grow with the length. */
#define LINE_MAX_BYTES 1024
#define PREFIX "tfe: "
#define NAMES_MAX 32

/* Limits for patterns, which come from a job and run in the process that renews the lease: steps
 * (about 1 ms) and memory per match, and total time per second. */
#define PATTERN_MAX_BYTES 1024
#define STEPS_MAX 20000
#define HEAP_MAX_KIB 256
#define BUDGET_NS INT64_C(50000000)

struct script_line {
    pcre2_code *pattern; /* NULL if there is none */
    pcre2_match_data *found;
    pcre2_match_context *limits;
    uint32_t n_names;
    PCRE2_SPTR names[NAMES_MAX];
    struct tfe_mono second; /* start of the second that spent_ns refers to */
    int64_t spent_ns;
    bool has_warned;
};

/* Parses a non-negative number and drops its fraction. */
static bool read_count(const char *text, uint64_t *ret)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0) || value > 9e18) {
        return false;
    }
    *ret = (uint64_t)value;
    return true;
}

/* Stores one named value of a line. */
static void store_value(struct script_message *m, const char *name, const char *text)
{
    char *end;
    if (strcmp(name, "step") == 0) {
        m->has_step = read_count(text, &m->step) || m->has_step;
    } else if (strcmp(name, "samples") == 0) {
        (void)read_count(text, &m->samples);
    } else if (strcmp(name, "total") == 0) {
        (void)read_count(text, &m->total);
    } else {
        double value = strtod(text, &end);
        if (end != text && *end == '\0') {
            script_metrics_add(&m->metrics, name, value);
        }
    }
}

/* Parses "step=120 loss=0.31": words separated by blanks or commas. */
static void read_words(char *text, struct script_message *m)
{
    char *rest = NULL;
    for (char *word = strtok_r(text, " ,\t", &rest); word; word = strtok_r(NULL, " ,\t", &rest)) {
        char *equals = strchr(word, '=');
        if (equals && equals > word) {
            *equals = '\0';
            store_value(m, word, equals + 1);
        }
    }
}

/* Returns the CPU time of this thread. */
static int64_t spent_ns(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0
               ? t.tv_sec * INT64_C(1000000000) + t.tv_nsec
               : 0;
}

static void warn_once(struct script_line *s, const char *reason)
{
    if (!s->has_warned) {
        s->has_warned = true;
        log_warn("progress_regex_costs_too_much", LOG_S("reason", reason));
    }
}

/* Matches within this second's budget. Returns the number of groups, or less than 1 if the line
 * does not match or the budget is exhausted. */
static int match(struct script_line *s, const char *line, size_t n)
{
    const struct tfe_mono now = clock_mono();
    if (tfe_mono_sub(now, s->second) >= 1000) {
        s->second = now;
        s->spent_ns = 0;
    }
    if (s->spent_ns > BUDGET_NS) {
        warn_once(s, "lines arrive faster than the pattern can be matched; some lines are skipped");
        return 0;
    }
    const int64_t began = spent_ns();
    const int rc = pcre2_match(s->pattern, (PCRE2_SPTR)line, n, 0, 0, s->found, s->limits);
    s->spent_ns += spent_ns() - began;
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT ||
        rc == PCRE2_ERROR_HEAPLIMIT) {
        warn_once(s,
                  "the pattern exceeds its limit of steps on some lines; these lines are skipped");
    }
    return rc;
}

static void read_groups(struct script_line *s, const char *line, size_t n, struct script_message *m)
{
    const int n_found = match(s, line, n);
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(s->found);
    for (uint32_t i = 0; i < s->n_names; i++) {
        const int group = s->names[i][0] << 8 | s->names[i][1];
        char text[64];
        if (group >= n_found || at[2 * group] == PCRE2_UNSET) {
            continue;
        }
        (void)snprintf(text, sizeof(text), "%.*s", (int)(at[2 * group + 1] - at[2 * group]),
                       line + at[2 * group]);
        store_value(m, (const char *)s->names[i] + 2, text);
    }
}

bool script_line_read(struct script_line *s, const char *line, size_t n, struct script_message *ret)
{
    char copy[LINE_MAX_BYTES + 1];
    const bool is_ours = n > sizeof(PREFIX) - 1 && memcmp(line, PREFIX, sizeof(PREFIX) - 1) == 0;
    if ((!is_ours && !s->pattern) || n > LINE_MAX_BYTES || memchr(line, '\0', n)) {
        return false;
    }
    memcpy(copy, line, n);
    copy[n] = '\0';
    *ret = (struct script_message){.type = SCRIPT_PROGRESS, .pid = 1};
    if (is_ours) {
        read_words(copy + sizeof(PREFIX) - 1, ret);
    } else {
        read_groups(s, copy, n, ret);
    }
    return ret->has_step || ret->metrics.n > 0 || ret->samples > 0 || ret->total > 0;
}

/* --- pattern --- */

/* Returns the length of the longest group name. */
static uint32_t longest_name(const struct script_line *s)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < s->n_names; i++) {
        const size_t n = strlen((const char *)s->names[i] + 2);
        longest = n > longest ? (uint32_t)n : longest;
    }
    return longest;
}

/* Stores pointers to the entries of the pattern's name table: two bytes for the group
 * number, then the name. */
static int find_names(struct script_line *s)
{
    PCRE2_SPTR table;
    uint32_t size;
    (void)pcre2_pattern_info(s->pattern, PCRE2_INFO_NAMECOUNT, &s->n_names);
    (void)pcre2_pattern_info(s->pattern, PCRE2_INFO_NAMETABLE, &table);
    (void)pcre2_pattern_info(s->pattern, PCRE2_INFO_NAMEENTRYSIZE, &size);
    if (s->n_names == 0 || s->n_names > NAMES_MAX) {
        return TFE_EINVAL;
    }
    for (uint32_t i = 0; i < s->n_names; i++) {
        s->names[i] = table + (size_t)i * size;
    }
    return 0;
}

static int compile(struct script_line *s, const char *pattern, struct tfe_reason *reason)
{
    int code;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    s->limits = pcre2_match_context_create(NULL);
    if (!context || !s->limits) {
        pcre2_compile_context_free(context);
        return TFE_ENOMEM;
    }
    (void)pcre2_set_max_pattern_length(context, PATTERN_MAX_BYTES);
    (void)pcre2_set_parens_nest_limit(context, NAMES_MAX);
    (void)pcre2_set_match_limit(s->limits, STEPS_MAX);
    (void)pcre2_set_depth_limit(s->limits, STEPS_MAX);
    (void)pcre2_set_heap_limit(s->limits, HEAP_MAX_KIB);
    s->pattern = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                               PCRE2_NEVER_UTF | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!s->pattern) {
        char words[128] = "";
        (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)words, sizeof(words));
        reason_set(reason, "invalid regular expression: %s (at character %zu)", words,
                   (size_t)offset);
        return TFE_EINVAL;
    }
    s->found = pcre2_match_data_create_from_pattern(s->pattern, NULL);
    if (!s->found) {
        return TFE_ENOMEM;
    }
    if (find_names(s) != 0 || longest_name(s) > SCRIPT_METRIC_NAME_MAX) {
        reason_set(reason,
                   s->n_names == 0
                       ? "expected a named group, as in \"step (?<step>[0-9]+)\""
                       : "more than %d named groups, or a name longer than %d characters",
                   NAMES_MAX, SCRIPT_METRIC_NAME_MAX);
        return TFE_EINVAL;
    }
    return 0;
}

int script_line_new(const char *pattern, struct script_line **ret, struct tfe_reason *reason)
{
    struct script_line *s = calloc(1, sizeof(*s));
    if (!s) {
        reason_set(reason, "out of memory");
        return TFE_ENOMEM;
    }
    int rc = pattern ? compile(s, pattern, reason) : 0;
    if (rc != 0) {
        script_line_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void script_line_free(struct script_line *s)
{
    if (s) {
        pcre2_match_data_free(s->found);
        pcre2_match_context_free(s->limits);
        pcre2_code_free(s->pattern);
    }
    free(s);
}
