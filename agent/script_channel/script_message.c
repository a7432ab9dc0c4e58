/* agent/script_channel/script_message.c: parses and builds the JSON messages of
 * the script channel. */
#include "agent/script_channel/script_message.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/text/escape.h"

/* Returns false if the type is unknown. */
static bool read_word(const char *type, enum script_message_type *ret)
{
    static const char *const words[] = {
        [SCRIPT_HELLO] = "hello",           [SCRIPT_PROGRESS] = "progress",
        [SCRIPT_CHECKPOINT] = "checkpoint", [SCRIPT_MEMORY] = "memory",
        [SCRIPT_HANDLER] = "handler",       [SCRIPT_REMARK] = "remark",
        [SCRIPT_SNAPSHOT] = "snapshot",     [SCRIPT_ENDS] = "ends",
        [SCRIPT_ARTIFACT] = "artifact"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(type, words[i]) == 0) {
            *ret = (enum script_message_type)i;
            return true;
        }
    }
    return false;
}

static enum script_remark read_remark(const char *what)
{
    static const char *const names[] = {[REMARK_HOOK_FAILED] = "hook_failed",
                                        [REMARK_KERAS3_FIT] = "keras3_fit",
                                        [REMARK_STRATEGY_MADE] = "strategy_made",
                                        [REMARK_IMPORTED] = "imported"};
    for (size_t i = REMARK_HOOK_FAILED; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(what, names[i]) == 0) {
            return (enum script_remark)i;
        }
    }
    return REMARK_UNKNOWN;
}

/* Returns 0 for an unknown word. */
static enum tfe_artifact read_artifact(const char *state)
{
    enum tfe_artifact i = ARTIFACT_FAILED;
    while (i > 0 && strcmp(msg_artifact_name(i), state) != 0) {
        i--;
    }
    return i;
}

void script_metrics_add(struct script_metrics *m, const char *name, double value)
{
    static const char legal[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-";
    char cut[SCRIPT_METRIC_NAME_MAX + 1];
    (void)snprintf(cut, sizeof(cut), "%s", name);
    for (char *c = cut; *c != '\0'; c++) {
        *c = strchr(legal, *c) ? *c : '_';
    }
    size_t i = 0;
    while (i < m->n && strcmp(m->v[i].name, cut) != 0) {
        i++;
    }
    if (cut[0] == '\0' || !isfinite(value) || i == SCRIPT_METRICS_MAX) {
        return;
    }
    m->n += i == m->n;
    memcpy(m->v[i].name, cut, sizeof(cut));
    m->v[i].value = value;
}

/* Returns false if a value is not a number. */
static bool read_metrics(json_t *metrics, struct script_metrics *ret)
{
    const char *name;
    json_t *value;
    *ret = (struct script_metrics){.n = 0};
    json_object_foreach(metrics, name, value)
    {
        if (!json_is_number(value)) {
            return false;
        }
        script_metrics_add(ret, name, json_number_value(value));
    }
    return true;
}

/* Reads the members of a message into m; missing ones keep their values. Returns
 * TFE_EINVAL with reason set. */
static int read_members(json_t *object, struct script_message *m, json_error_t *reason)
{
    json_int_t epoch = 0;
    json_int_t rank = 0;
    json_int_t pid = 1;
    json_int_t step = -1;
    json_int_t samples = 0;
    json_int_t total = 0;
    json_t *metrics = NULL;
    json_int_t answers = 0;
    json_int_t bytes = 0;
    json_int_t code = 0;
    int listens = 0;
    int partitioned = 0;
    int restored = 0;
    int seen = 0;
    int handles = 0;
    const char *what = "";
    const char *text = "";
    const char *state = "";
    const char *place = "";
    json_int_t files = 0;
    const char *path;
    size_t path_n = 0;
    int rc = json_unpack_ex(object, reason, 0, "{s:I,s:I}", "epoch", &epoch, "rank", &rank);
    if (rc == 0 && m->type == SCRIPT_HELLO) {
        rc = json_unpack_ex(object, reason, 0, "{s:I,s:b,s?b}", "pid", &pid, "listens", &listens,
                            "partitioned", &partitioned);
    } else if (rc == 0 && m->type == SCRIPT_PROGRESS) {
        rc = json_unpack_ex(object, reason, 0, "{s:I,s?I,s?I,s?b,s?b,s?o}", "step", &step,
                            "samples", &samples, "total", &total, "restored", &restored, "seen",
                            &seen, "metrics", &metrics);
    } else if (rc == 0 && m->type == SCRIPT_CHECKPOINT) {
        rc = json_unpack_ex(object, reason, 0, "{s?I,s?I,s?s%,s?b}", "step", &step, "answers",
                            &answers, "path", &path, &path_n, "seen", &seen);
    } else if (rc == 0 && m->type == SCRIPT_MEMORY) {
        rc = json_unpack_ex(object, reason, 0, "{s:I}", "bytes", &bytes);
    } else if (rc == 0 && m->type == SCRIPT_SNAPSHOT) {
        rc = json_unpack_ex(object, reason, 0, "{s:I,s?I}", "step", &step, "answers", &answers);
    } else if (rc == 0 && m->type == SCRIPT_HANDLER) {
        rc = json_unpack_ex(object, reason, 0, "{s:I,s:b}", "pid", &pid, "term", &handles);
    } else if (rc == 0 && m->type == SCRIPT_REMARK) {
        rc = json_unpack_ex(object, reason, 0, "{s:s,s?s}", "what", &what, "why", &text);
    } else if (rc == 0 && m->type == SCRIPT_ENDS) {
        rc = json_unpack_ex(object, reason, 0, "{s?I}", "code", &code);
    }
    if (rc == 0 && m->type == SCRIPT_ARTIFACT) {
        rc = json_unpack_ex(object, reason, 0, "{s:s,s:s,s:I,s:I,s?s}", "state", &state, "place",
                            &place, "files", &files, "bytes", &bytes, "why", &text);
    }
    bool has_step = m->type == SCRIPT_PROGRESS || m->type == SCRIPT_SNAPSHOT ||
                    (m->type == SCRIPT_CHECKPOINT && json_object_get(object, "step"));
    step = has_step ? step : 0;
    if (rc) {
        return TFE_EINVAL;
    }
    if (epoch < 0 || rank < 0 || rank > UINT32_MAX || pid < 1 || pid > INT32_MAX || step < 0 ||
        samples < 0 || total < 0 || answers < 0 || bytes < 0 || files < 0 || code < 0 ||
        code > 255 || path_n > SCRIPT_PATH_MAX) {
        snprintf(reason->text, sizeof(reason->text), "a number or a path is out of range");
        return TFE_EINVAL;
    }
    if (metrics && (!json_is_object(metrics) || !read_metrics(metrics, &m->metrics))) {
        snprintf(reason->text, sizeof(reason->text),
                 "metrics: expected a mapping of names to numbers");
        return TFE_EINVAL;
    }
    m->samples = (uint64_t)samples;
    m->total = (uint64_t)total;
    m->epoch = (uint64_t)epoch;
    m->rank = (uint32_t)rank;
    m->pid = (pid_t)pid;
    m->listens = listens;
    m->partitioned = partitioned;
    m->handles = handles;
    m->has_step = has_step;
    m->step = (uint64_t)step;
    m->seen = seen;
    m->restored = restored;
    m->answers = (uint64_t)answers;
    m->bytes = (uint64_t)bytes;
    m->code = (uint32_t)code;
    m->remark = read_remark(what);
    m->artifact = read_artifact(state);
    m->files = (uint64_t)files;
    (void)escape_text(place, m->place, sizeof m->place);
    (void)escape_text(text, m->reason, sizeof m->reason);
    if (m->type == SCRIPT_ARTIFACT && (!m->artifact || !m->place[0])) {
        snprintf(reason->text, sizeof(reason->text), "no valid state or place of artifacts");
        return TFE_EINVAL;
    }
    return 0;
}

int script_message_read(const char *bytes, size_t n, struct script_message *ret,
                        struct tfe_reason *reason)
{
    json_error_t error = {.text = "the message is too long"};
    json_t *object =
        n <= SCRIPT_MESSAGE_MAX ? json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &error) : NULL;
    struct script_message m = {.pid = 1};
    const char *type;
    int rc = TFE_EINVAL;
    if (object && json_unpack_ex(object, &error, 0, "{s:s}", "type", &type) == 0) {
        rc = read_word(type, &m.type) ? read_members(object, &m, &error) : TFE_EUNKNOWN;
    }
    reason_set(reason, "%s", rc == TFE_EUNKNOWN ? "unknown message type" : error.text);
    json_decref(object);
    if (rc == 0) {
        *ret = m;
    }
    return rc;
}

/* Serialises object and releases it. Returns the length, or 0 if out of memory. */
static size_t dump(char ret[SCRIPT_REPLY_MAX], json_t *object)
{
    const size_t n = object ? json_dumpb(object, ret, SCRIPT_REPLY_MAX - 1, JSON_COMPACT) : 0;
    json_decref(object);
    ret[n] = '\0';
    return n;
}

size_t script_message_save(char ret[SCRIPT_REPLY_MAX], uint64_t epoch, uint64_t number,
                           bool has_within, uint64_t within_ms, bool in_memory)
{
    return dump(ret, json_pack("{s:s,s:I,s:I,s:o,s:b}", "type", "save", "epoch", (json_int_t)epoch,
                               "number", (json_int_t)number, "within_ms",
                               has_within ? json_integer((json_int_t)within_ms) : json_null(),
                               "in_memory", in_memory));
}

size_t script_message_stop(char ret[SCRIPT_REPLY_MAX], uint64_t epoch, uint64_t grace_ms,
                           bool in_memory)
{
    return dump(ret, json_pack("{s:s,s:I,s:I,s:b}", "type", "stop", "epoch", (json_int_t)epoch,
                               "grace_ms", (json_int_t)grace_ms, "in_memory", in_memory));
}

size_t script_message_memory(char ret[SCRIPT_REPLY_MAX], uint64_t epoch, uint64_t bytes,
                             const char *reason)
{
    return dump(ret, json_pack("{s:s,s:I,s:I,s:s}", "type", "memory", "epoch", (json_int_t)epoch,
                               "bytes", (json_int_t)bytes, "why", reason));
}
