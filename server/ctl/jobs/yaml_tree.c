/* server/ctl/jobs/yaml_tree.c: converts YAML to a JSON tree, using libyaml's events. */
#include "server/ctl/jobs/yaml_tree.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

/* A mapping or sequence that is still open. */
struct level {
    json_t *node; /* borrowed from the enclosing level or the root */
    char *key;    /* mapping: the key whose value comes next; owned */
};

struct reader {
    struct level levels[YAML_TREE_DEPTH_MAX];
    size_t depth;
    size_t nodes;
    json_t *root;
    size_t line;      /* line at which the document begins */
    const char *text; /* n bytes */
    size_t n;
    struct tfe_reason *reason;
};

static int refuse(const struct reader *r, const yaml_event_t *event, const char *what)
{
    reason_set(r->reason, "line %zu: %s", event->start_mark.line + 1, what);
    return TFE_EINVAL;
}

static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* Matches [-+]? (0 | [1-9][0-9]*). Other forms are octal for some parsers and decimal for others.
 */
static bool is_whole(const char *s)
{
    s += *s == '-' || *s == '+';
    size_t n = digits(s);
    return n > 0 && s[n] == '\0' && (n == 1 || s[0] != '0');
}

/* Matches [-+]? [0-9]* (. [0-9]*)? ([eE] [-+]? [0-9]+)? with at least one digit, and a point or an
 * exponent. */
static bool is_real(const char *s)
{
    s += *s == '-' || *s == '+';
    size_t before = digits(s);
    s += before;
    size_t behind = 0;
    bool has_point = *s == '.';
    if (has_point) {
        behind = digits(++s);
        s += behind;
    }
    if (before + behind == 0) {
        return false;
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '-' || *s == '+';
        size_t n = digits(s);
        return n > 0 && s[n] == '\0';
    }
    return has_point && *s == '\0';
}

static bool is_one_of(const char *s, const char *a, const char *b, const char *c)
{
    return strcmp(s, a) == 0 || strcmp(s, b) == 0 || strcmp(s, c) == 0;
}

/* Returns NULL if out of memory, or if the number is out of range (*ret_is_huge is true). */
static json_t *plain(const char *s, bool *ret_is_huge)
{
    *ret_is_huge = false;
    if (*s == '\0' || strcmp(s, "~") == 0 || is_one_of(s, "null", "Null", "NULL")) {
        return json_null();
    }
    if (is_one_of(s, "true", "True", "TRUE")) {
        return json_true();
    }
    if (is_one_of(s, "false", "False", "FALSE")) {
        return json_false();
    }
    if (is_whole(s)) {
        errno = 0;
        long long value = strtoll(s, NULL, 10);
        *ret_is_huge = errno != 0;
        return errno ? NULL : json_integer(value);
    }
    if (is_real(s)) {
        double value = strtod(s, NULL);
        *ret_is_huge = !isfinite(value);
        return *ret_is_huge ? NULL : json_real(value);
    }
    return json_string(s);
}

static int scalar(struct reader *r, const yaml_event_t *event, json_t **ret)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t n = event->data.scalar.length;
    bool is_huge = false;
    if (memchr(text, '\0', n)) {
        return refuse(r, event, "a string contains a NUL character");
    }
    *ret = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain(text, &is_huge)
                                                               : json_stringn(text, n);
    if (is_huge) {
        return refuse(r, event, "a number is too large");
    }
    return *ret ? 0 : TFE_ENOMEM;
}

static int take_key(struct reader *r, const yaml_event_t *event)
{
    struct level *top = &r->levels[r->depth - 1];
    if (event->type != YAML_SCALAR_EVENT) {
        return refuse(r, event, "a key is not a string");
    }
    const char *key = (const char *)event->data.scalar.value;
    if (memchr(key, '\0', event->data.scalar.length)) {
        return refuse(r, event, "a string contains a NUL character");
    }
    if (strcmp(key, "<<") == 0) {
        return refuse(r, event, "\"<<\": merging of mappings is not supported");
    }
    if (json_object_get(top->node, key)) {
        reason_set(r->reason, "line %zu: \"%.64s\" is repeated in its mapping",
                   event->start_mark.line + 1, key);
        return TFE_EINVAL;
    }
    top->key = strdup(key);
    return top->key ? 0 : TFE_ENOMEM;
}

/* Inserts node at the current position; takes ownership of it, also on error. */
static int put(struct reader *r, json_t *node)
{
    if (r->depth == 0) {
        r->root = node;
        return 0;
    }
    struct level *top = &r->levels[r->depth - 1];
    if (!top->key) {
        return json_array_append_new(top->node, node) ? TFE_ENOMEM : 0;
    }
    int failed = json_object_set_new(top->node, top->key, node);
    free(top->key);
    top->key = NULL;
    return failed ? TFE_ENOMEM : 0;
}

static bool has_extras(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor || event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor || event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor || event->data.mapping_start.tag;
    default:
        return event->type == YAML_ALIAS_EVENT;
    }
}

static int take_node(struct reader *r, const yaml_event_t *event)
{
    json_t *node = NULL;
    if (++r->nodes > YAML_TREE_NODES_MAX) {
        (void)refuse(r, event, "too many values");
        return TFE_ETOOBIG;
    }
    if (has_extras(event)) {
        return refuse(r, event,
                      "anchors, aliases and tags are not supported (write the value out)");
    }
    if (r->depth > 0 && json_is_object(r->levels[r->depth - 1].node) &&
        !r->levels[r->depth - 1].key) {
        return take_key(r, event);
    }
    if (event->type == YAML_SCALAR_EVENT) {
        int rc = scalar(r, event, &node);
        return rc ? rc : put(r, node);
    }
    if (r->depth == YAML_TREE_DEPTH_MAX) {
        (void)refuse(r, event, "nested too deeply");
        return TFE_ETOOBIG;
    }
    node = event->type == YAML_MAPPING_START_EVENT ? json_object() : json_array();
    if (!node || put(r, node)) {
        return TFE_ENOMEM;
    }
    r->levels[r->depth++] = (struct level){.node = node};
    return 0;
}

/* Returns true for a document that contains only "---" and comments. */
static bool is_empty_document(const struct reader *r, const yaml_event_t *event)
{
    return r->depth == 0 && event->type == YAML_SCALAR_EVENT &&
           event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && event->data.scalar.length == 0 &&
           !has_extras(event);
}

static int take(struct reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        r->line = event->start_mark.line + 1;
        return 0;
    case YAML_ALIAS_EVENT:
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        if (is_empty_document(r, event)) {
            return 0;
        }
        if (r->depth == 0 && r->root) {
            reason_set(r->reason, "line %zu: second document: a file must contain one job",
                       r->line);
            return TFE_EINVAL;
        }
        return take_node(r, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        return 0;
    default:
        return 0;
    }
}

static size_t line_of(const char *text, size_t offset)
{
    size_t line = 1;
    for (size_t i = 0; i < offset; i++) {
        line += text[i] == '\n';
    }
    return line;
}

/* Returns what is wrong with the indentation of a line of n bytes (a tab, or a character that
 * looks like a space), or NULL. */
static const char *false_space(const char *line, size_t n)
{
    static const char *const spaces[] = {
        "\xc2\xa0", "\xe2\x80",
        "\xe3\x80\x80"}; /* first bytes of U+00A0, U+2000 to U+203F, U+3000 */
    size_t at = 0;
    while (at < n && (line[at] == ' ' || line[at] == '-')) {
        at++;
    }
    if (at < n && line[at] == '\t') {
        return "tab in the indentation: YAML permits spaces only";
    }
    for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
        const size_t length = strlen(spaces[i]);
        if (n - at >= length && memcmp(line + at, spaces[i], length) == 0) {
            return "no-break or other special space in the indentation: YAML permits plain spaces "
                   "only";
        }
    }
    return NULL;
}

/* Searches up to two lines above the reported one, because the parser reports an invalid space
 * late. */
static bool find_false_space(const struct reader *r, size_t line)
{
    const char *at = r->text;
    const char *end = r->text + r->n;
    for (size_t i = 1; i <= line && at < end; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t n = (size_t)((newline ? newline : end) - at);
        const char *what = i + 2 >= line ? false_space(at, n) : NULL;
        if (what) {
            reason_set(r->reason, "line %zu: %s", i, what);
            return true;
        }
        at += n + 1;
    }
    return false;
}

static int refuse_text(const struct reader *r, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        return TFE_ENOMEM;
    }
    if (parser->error == YAML_READER_ERROR) { /* reader errors have an offset but no line */
        const size_t offset = parser->problem_offset < r->n ? parser->problem_offset : r->n;
        const char *problem = parser->problem ? parser->problem : "invalid byte";
        reason_set(r->reason, "line %zu: %s%s", line_of(r->text, offset), problem,
                   strstr(problem, "UTF-8") ? " (save the file as UTF-8)" : "");
    } else if (!find_false_space(r, parser->problem_mark.line + 1)) {
        reason_set(r->reason, "line %zu: %s", parser->problem_mark.line + 1,
                   parser->problem ? parser->problem : "this is not YAML");
    }
    return TFE_EINVAL;
}

static int read_all(struct reader *r, yaml_parser_t *parser)
{
    bool is_over = false;
    while (!is_over) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            return refuse_text(r, parser);
        }
        is_over = event.type == YAML_STREAM_END_EVENT;
        int rc = take(r, &event);
        yaml_event_delete(&event);
        if (rc) {
            return rc;
        }
    }
    if (!r->root) {
        reason_set(r->reason, "the file is empty");
        return TFE_EINVAL;
    }
    return 0;
}

int yaml_tree_read(const char *text, size_t n, json_t **ret, struct tfe_reason *reason)
{
    struct reader r = {.text = text, .n = n, .reason = reason};
    yaml_parser_t parser;
    if (n > YAML_TREE_BYTES_MAX) {
        reason_set(reason, "the file is longer than %u bytes", YAML_TREE_BYTES_MAX);
        return TFE_ETOOBIG;
    }
    if (!yaml_parser_initialize(&parser)) {
        reason_set(reason, "out of memory");
        return TFE_ENOMEM;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    int rc = read_all(&r, &parser);
    yaml_parser_delete(&parser);
    for (size_t i = 0; i < r.depth; i++) {
        free(r.levels[i].key);
    }
    if (rc) {
        if (rc == TFE_ENOMEM) {
            reason_set(reason, "out of memory");
        }
        json_decref(r.root);
        return rc;
    }
    *ret = r.root;
    return 0;
}
