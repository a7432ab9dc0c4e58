/* agent/scripts/script_line.c: see script_line.h. */
#include "agent/scripts/script_line.h"

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longer ones tell nothing: a pattern may take time that grows with the line. */
#define LINE_MAX_BYTES 1024
#define PREFIX "tfe: "
#define GROUPS_MAX 32

struct script_line {
    bool has_pattern;
    regex_t pattern;
    size_t n_groups;
    char names[GROUPS_MAX][SCRIPT_METRIC_NAME_MAX + 1]; /* by group; "" none */
};

/* Whole, and not negative. */
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

/* One more of what a line tells. */
static void take(struct script_message *m, const char *name, const char *text)
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

/* "step=120 loss=0.31": words with blanks or commas between them. */
static void read_words(char *text, struct script_message *m)
{
    char *rest = NULL;
    for (char *word = strtok_r(text, " ,\t", &rest); word; word = strtok_r(NULL, " ,\t", &rest)) {
        char *equals = strchr(word, '=');
        if (equals && equals > word) {
            *equals = '\0';
            take(m, word, equals + 1);
        }
    }
}

static void read_groups(const struct script_line *s, char *line, struct script_message *m)
{
    regmatch_t at[GROUPS_MAX];
    if (regexec(&s->pattern, line, s->n_groups + 1, at, 0) != 0) {
        return;
    }
    for (size_t i = 1; i <= s->n_groups; i++) {
        char text[64];
        if (s->names[i][0] != '\0' && at[i].rm_so >= 0) {
            (void)snprintf(text, sizeof(text), "%.*s", (int)(at[i].rm_eo - at[i].rm_so),
                           line + at[i].rm_so);
            take(m, s->names[i], text);
        }
    }
}

bool script_line_read(const struct script_line *s, const char *line, size_t n,
                      struct script_message *ret)
{
    char copy[LINE_MAX_BYTES + 1];
    const bool is_ours = n > sizeof(PREFIX) - 1 && memcmp(line, PREFIX, sizeof(PREFIX) - 1) == 0;
    if ((!is_ours && !s->has_pattern) || n > LINE_MAX_BYTES || memchr(line, '\0', n)) {
        return false;
    }
    memcpy(copy, line, n);
    copy[n] = '\0';
    *ret = (struct script_message){.word = SCRIPT_PROGRESS, .pid = 1};
    if (is_ours) {
        read_words(copy + sizeof(PREFIX) - 1, ret);
    } else {
        read_groups(s, copy, ret);
    }
    return ret->has_step || ret->metrics.n > 0 || ret->samples > 0 || ret->total > 0;
}

/* --- the pattern ------------------------------------------------------------------------------ */

/* Takes "?<name>" and "?P<name>" out of the pattern, which regcomp does not know, and notes whose
 * group it is. False: it makes no sense. */
static bool take_names(struct script_line *s, const char *pattern, char *ret)
{
    bool in_class = false;
    for (const char *p = pattern; *p != '\0'; p++) {
        *ret++ = *p;
        if (*p == '\\' && p[1] != '\0') {
            *ret++ = *++p;
        } else if (in_class) {
            in_class = *p != ']';
        } else if (*p == '[') {
            in_class = true;
            if (p[1] == '^') {
                *ret++ = *++p;
            }
            if (p[1] == ']') {
                *ret++ = *++p;
            }
        } else if (*p == '(') {
            if (++s->n_groups >= GROUPS_MAX) {
                return false;
            }
            const char *name = strncmp(p + 1, "?P<", 3) == 0  ? p + 4
                               : strncmp(p + 1, "?<", 2) == 0 ? p + 3
                                                              : NULL;
            if (name) {
                size_t n = strcspn(name, ">");
                if (n == 0 || n > SCRIPT_METRIC_NAME_MAX || name[n] != '>') {
                    return false;
                }
                memcpy(s->names[s->n_groups], name, n);
                p = name + n;
            }
        }
    }
    *ret = '\0';
    return true;
}

static int compile(struct script_line *s, const char *pattern, struct tfe_why *why)
{
    char *plain = malloc(strlen(pattern) + 1);
    bool has_name = false;
    if (!plain) {
        return TFE_ENOMEM;
    }
    if (!take_names(s, pattern, plain)) {
        why_set(why, "a group's name is not closed or too long, or there are over %d groups",
                GROUPS_MAX - 1);
        free(plain);
        return TFE_EINVAL;
    }
    int code = regcomp(&s->pattern, plain, REG_EXTENDED);
    free(plain);
    if (code != 0) {
        char words[128];
        (void)regerror(code, &s->pattern, words, sizeof(words));
        why_set(why, "no extended regular expression: %s", words);
        return code == REG_ESPACE ? TFE_ENOMEM : TFE_EINVAL;
    }
    s->has_pattern = true;
    for (size_t i = 1; i <= s->n_groups; i++) {
        has_name = has_name || s->names[i][0] != '\0';
    }
    if (!has_name) {
        why_set(why, "no group has a name, as in \"step (?<step>[0-9]+)\"");
        return TFE_EINVAL;
    }
    return 0;
}

int script_line_new(const char *pattern, struct script_line **ret, struct tfe_why *why)
{
    struct script_line *s = calloc(1, sizeof(*s));
    if (!s) {
        why_set(why, "out of memory");
        return TFE_ENOMEM;
    }
    int rc = pattern ? compile(s, pattern, why) : 0;
    if (rc != 0) {
        script_line_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void script_line_free(struct script_line *s)
{
    if (s && s->has_pattern) {
        regfree(&s->pattern);
    }
    free(s);
}
