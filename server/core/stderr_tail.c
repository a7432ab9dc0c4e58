/* server/core/stderr_tail.c: reads the last lines that a trainer printed on stderr. */
#include "server/core/stderr_tail.h"

#include <stdbool.h>
#include <string.h>

#include "common/message/msg.h"

#define FRAME "  File \""
/* maximum length of the text from which log lines are removed */
#define TAIL_MAX MSG_TAIL_MAX

static bool begins(const char *line, const char *head)
{
    return strncmp(line, head, strlen(head)) == 0;
}

static size_t line_length(const char *line)
{
    return strcspn(line, "\n");
}

/* Returns the next line, or NULL at the end. */
static const char *next_line(const char *line)
{
    const char *newline = strchr(line, '\n');
    return newline ? newline + 1 : NULL;
}

/* Returns the line of a syntax error, or NULL. Python prints one in the program itself without the
 * head of a traceback. */
static const char *syntax_error(const char *tail)
{
    static const char *const types[] = {"SyntaxError: ", "IndentationError: ", "TabError: "};
    bool has_frame = false;
    for (const char *line = tail; line; line = next_line(line)) {
        for (size_t i = 0; has_frame && i < sizeof(types) / sizeof(types[0]); i++) {
            if (begins(line, types[i])) {
                return line;
            }
        }
        has_frame = has_frame || begins(line, FRAME);
    }
    return NULL;
}

/* Returns the head of the last traceback, or NULL if there is none. */
static const char *last_head(const char *tail)
{
    const char *head = NULL;
    for (const char *p = strstr(tail, MSG_RAISED_HEAD); p; p = strstr(p + 1, MSG_RAISED_HEAD)) {
        head = p;
    }
    return head;
}

const char *stderr_tail_exception(const char *tail)
{
    const char *line = last_head(tail);
    if (!line) {
        return syntax_error(tail);
    }
    do {
        line = next_line(line);
    } while (line && (*line == ' ' || *line == '\n'));
    return line && *line ? line : NULL;
}

/* --- one line --------------------------------------------------------------------------------- */

/* Returns the line that names the fault of a graph execution error, or NULL if there is none. */
static const char *graph_fault(const char *exception)
{
    static const char *const others[] = {"Detected at ", "Node: ", "<stack traces", "Errors may",
                                         "Original stack trace"};
    const char *found = NULL;
    for (const char *line = next_line(exception); line; line = next_line(line)) {
        bool is_other = line_length(line) == 0 || *line == ' ' || *line == '\t' || *line == '\n';
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
            is_other = is_other || begins(line, others[i]);
        }
        found = is_other ? found : line;
    }
    return found;
}

static void add_line(struct text *text, const char *line)
{
    size_t n = line_length(line);
    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\r' || line[n - 1] == '\t')) {
        n--;
    }
    text_addf(text, "%.*s", (int)n, line);
}

void stderr_tail_error(const char *tail, char *ret, size_t cap)
{
    static const char module[] = "tensorflow.python.framework.errors_impl.";
    static const char graph[] = "Graph execution error:";
    const char *line = stderr_tail_exception(tail);
    struct text text;
    text_init(&text, ret, cap);
    if (!line) {
        return;
    }
    add_line(&text, begins(line, module) ? line + sizeof(module) - 1 : line);
    const char *fault = graph_fault(line);
    const size_t n = sizeof(graph) - 1;
    if (fault && text.n >= n && strcmp(ret + text.n - n, graph) == 0) {
        text_add(&text, " ");
        add_line(&text, fault);
    }
}

static bool is_installed(const char *path, size_t n)
{
    static const char *const marks[] = {"/site-packages/", "/dist-packages/", "/lib/python"};
    bool is = n > 0 && path[0] == '<'; /* for example "<frozen importlib._bootstrap>", "<string>" */
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        const char *mark = strstr(path, marks[i]);
        is = is || (mark && mark < path + n);
    }
    return is;
}

void stderr_tail_source(const char *tail, char *ret, size_t cap)
{
    const char *exception = stderr_tail_exception(tail);
    const char *head = last_head(tail);
    bool is_own = false;
    ret[0] = '\0';
    for (const char *line = head ? head : tail; exception && line && line < exception;
         line = next_line(line)) {
        const char *path = line + sizeof(FRAME) - 1;
        const char *end = begins(line, FRAME) ? strstr(path, "\", line ") : NULL;
        if (!end || end > line + line_length(line)) {
            continue;
        }
        const bool is_users = !is_installed(path, (size_t)(end - path));
        if (is_own && !is_users) {
            continue;
        }
        is_own = is_own || is_users;
        const char *name = path;
        for (const char *at = path; at < end; at++) {
            name = *at == '/' ? at + 1 : name;
        }
        const char *number = end + strlen("\", line ");
        text_setf(ret, cap, "%.*s:%.*s", (int)(end - name), name, (int)strspn(number, "0123456789"),
                  number);
    }
}

/* --- output without TensorFlow's log lines ---------------------------------------------------- */

/* Returns true if the line matches the pattern, in which 0 stands for a digit. */
static bool follows(const char *line, const char *pattern)
{
    for (; *pattern; line++, pattern++) {
        const bool is_digit = *line >= '0' && *line <= '9';
        if (*pattern == '0' ? !is_digit : *line != *pattern) {
            return false;
        }
    }
    return true;
}

/* Returns true for a log line of level INFO or WARNING: "2026-11-29 07:20:58.123456: I
 * tensorflow/...", "I0000 00:00:1764400858.1 ..." (absl), and lines that belong to one. */
static bool is_log_line(const char *line)
{
    static const char *const parts[] = {
        "WARNING: All log messages before absl::InitializeLog()",
        "To enable the following instructions:",
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (begins(line, parts[i])) {
            return true;
        }
    }
    if (follows(line, "0000-00-00 00:00:00.")) {
        const char *level = line + strlen("0000-00-00 00:00:00.");
        level += strspn(level, "0123456789");
        return begins(level, ": I ") || begins(level, ": W ");
    }
    return follows(line, "I0000 00:00:") || follows(line, "W0000 00:00:");
}

void stderr_tail_line(const char *tail, char *ret, size_t cap)
{
    struct text text;
    const char *found = NULL;
    for (const char *line = tail; line; line = next_line(line)) {
        const bool is_blank =
            line[strspn(line, " \t\r")] == '\n' || line[strspn(line, " \t\r")] == '\0';
        found = is_blank || is_log_line(line) ? found : line;
    }
    text_init(&text, ret, cap);
    if (found) {
        add_line(&text, found + strspn(found, " \t"));
    }
}

void stderr_tail_add(struct text *text, const char *tail, size_t max)
{
    char kept[TAIL_MAX + 1];
    struct text lines;
    text_init(&lines, kept, sizeof(kept));
    for (const char *line = tail; line && *line; line = next_line(line)) {
        if (!is_log_line(line)) {
            text_addf(&lines, "%.*s%s", (int)line_length(line), line, next_line(line) ? "\n" : "");
        }
    }
    const char *raised = stderr_tail_exception(kept);
    if (raised && strlen(raised) > max) {
        text_add_head(text, raised, max);
    } else {
        text_add_tail(text, kept, max);
    }
}
