/* tests/unit/message/test_codec_fields.c: tfe.proto, msg.h and the codec's layout agree. */
#include <stdio.h>
#include <string.h>

#include "common/message/codec_fields.h"
#include "tests/unit/test_runner.h"
#include "tfe.pb-c.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- enums ------------------------------------------------------------------------------------ */

struct value {
    const char *name;
    int number;
};

#define VALUE(NAME, number, name) {#NAME, number},
#define VALUES(name, LIST) static const struct value name[] = {LIST(VALUE)}
VALUES(refusals, TFE_REFUSALS);
VALUES(causes, TFE_CAUSES);
VALUES(results, TFE_RESULTS);
VALUES(roles, TFE_ROLES);
VALUES(job_states, TFE_JOB_STATES);
VALUES(endings, TFE_ENDINGS);
VALUES(tasks, TFE_TASKS);
VALUES(notices, TFE_NOTICES);
VALUES(probe_kinds, TFE_PROBE_KINDS);
VALUES(probe_results, TFE_PROBE_RESULTS);
VALUES(rotations, TFE_ROTATIONS);
VALUES(streams, TFE_STREAMS);
VALUES(standbys, TFE_STANDBYS);
VALUES(outs, TFE_OUTS);
VALUES(artifacts, TFE_ARTIFACTS);
VALUES(event_levels, TFE_EVENT_LEVELS);

static const struct {
    const ProtobufCEnumDescriptor *descriptor;
    const char *prefix;
    const struct value *values;
    size_t n;
} enums[] = {
    {&tfe__refusal__descriptor, "REFUSAL_", refusals, COUNT(refusals)},
    {&tfe__stream__descriptor, "STREAM_", streams, COUNT(streams)},
    {&tfe__standby__descriptor, "WARMTH_", standbys, COUNT(standbys)},
    {&tfe__out__descriptor, "OUT_", outs, COUNT(outs)},
    {&tfe__artifact_state__descriptor, "ARTIFACT_STATE_", artifacts, COUNT(artifacts)},
    {&tfe__event_level__descriptor, "EVENT_", event_levels, COUNT(event_levels)},
    {&tfe__rotation__descriptor, "ROTATION_", rotations, COUNT(rotations)},
    {&tfe__cause__descriptor, "CAUSE_", causes, COUNT(causes)},
    {&tfe__result__descriptor, "RESULT_", results, COUNT(results)},
    {&tfe__node_role__descriptor, "ROLE_", roles, COUNT(roles)},
    {&tfe__job_state__descriptor, "STATE_", job_states, COUNT(job_states)},
    {&tfe__ending__descriptor, "ENDING_", endings, COUNT(endings)},
    {&tfe__task__descriptor, "TASK_", tasks, COUNT(tasks)},
    {&tfe__notice_kind__descriptor, "NOTICE_", notices, COUNT(notices)},
    {&tfe__probe_kind__descriptor, "PROBE_KIND_", probe_kinds, COUNT(probe_kinds)},
    {&tfe__probe_result__descriptor, "PROBE_RESULT_", probe_results, COUNT(probe_results)},
};

TEST(fields, enums_have_the_numbers_of_the_proto)
{
    for (size_t i = 0; i < COUNT(enums); i++) {
        assert_int_equal(enums[i].descriptor->n_values, enums[i].n);
        for (size_t k = 0; k < enums[i].n; k++) {
            char name[64];
            (void)snprintf(name, sizeof(name), "%s%s", enums[i].prefix,
                           strchr(enums[i].values[k].name, '_') + 1);
            const ProtobufCEnumValue *value =
                protobuf_c_enum_descriptor_get_value_by_name(enums[i].descriptor, name);
            if (!value || value->value != enums[i].values[k].number) {
                fail_msg("%s is another number in tfe.proto, or not there", name);
            }
        }
    }
}

/* --- fields ----------------------------------------------------------------------------------- */

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail_msg("%s.%s: not so: %s", message, field->name, #condition);                       \
        }                                                                                          \
    } while (0)

static bool is_known_enum(const void *descriptor)
{
    size_t i = 0;
    while (i < COUNT(enums) && enums[i].descriptor != descriptor) {
        i++;
    }
    return i < COUNT(enums);
}

/* Asserts that a number's member is as wide as its wire type, or that its range fits a narrower
 * member. */
static void check_number(const char *message, const struct codec_field *row,
                         const ProtobufCFieldDescriptor *field)
{
    switch ((int)field->type) {
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        MUST(row->size == sizeof(uint64_t));
        break;
    case PROTOBUF_C_TYPE_UINT32:
        MUST(row->size == sizeof(uint32_t) ||
             (row->size == sizeof(uint16_t) && row->max <= UINT16_MAX));
        break;
    case PROTOBUF_C_TYPE_BOOL:
        MUST(row->size == sizeof(bool) && row->max == 1);
        break;
    case PROTOBUF_C_TYPE_ENUM:
        MUST(row->size == sizeof(enum tfe_cause) && is_known_enum(field->descriptor));
        break;
    default:
        MUST(!"a type that the codec knows");
    }
}

static void check_kind(const char *message, const struct codec_field *row,
                       const ProtobufCFieldDescriptor *field)
{
    bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
    MUST(is_message == (row->part != NULL));
    MUST(!is_message ||
         (row->part->descriptor == field->descriptor && row->part->size == row->size));
    MUST((row->kind == CODEC_LIST) == (field->label == PROTOBUF_C_LABEL_REPEATED));
    switch (row->kind) {
    case CODEC_NUMBER:
        check_number(message, row, field);
        break;
    case CODEC_TEXT:
        MUST(field->type == PROTOBUF_C_TYPE_BYTES);
        break;
    case CODEC_BYTES:
        MUST(field->type == PROTOBUF_C_TYPE_BYTES && row->companion > 0 && row->size == 0);
        break;
    case CODEC_PART:
        MUST(is_message);
        break;
    case CODEC_LIST:
        MUST(row->n_min <= row->n_max && row->companion > 0);
        if (field->type == PROTOBUF_C_TYPE_BYTES) {
            MUST(row->size == sizeof(char *) && row->is_legal);
        } else if (!is_message) {
            check_number(message, row, field);
        }
        break;
    }
}

/* Asserts that the value for an absent field is valid, and that "" is invalid for a text that may
 * be NULL. */
static void check_absence(const char *message, const struct codec_field *row,
                          const ProtobufCFieldDescriptor *field)
{
    MUST(row->min <= row->max);
    if (field->label != PROTOBUF_C_LABEL_OPTIONAL) {
        MUST(row->absent == CODEC_ZERO &&
             (row->companion == 0 || row->kind == CODEC_LIST || row->kind == CODEC_BYTES));
        return;
    }
    MUST(!field->default_value || *(const uint32_t *)field->default_value == 0);
    switch (row->absent) {
    case CODEC_ZERO:
        MUST(row->min == 0);
        break;
    case CODEC_UNSET:
        MUST(row->kind == CODEC_NUMBER && row->size == sizeof(uint32_t) && row->companion == 0);
        break;
    case CODEC_NULL:
        MUST(row->kind == CODEC_PART || (row->kind == CODEC_TEXT && row->min > 0));
        break;
    }
}

static void check_layout(const struct codec_layout *layout)
{
    const char *message = layout->descriptor->short_name;
    unsigned n_rows = 0;
    for (unsigned i = 0; i < layout->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &layout->descriptor->fields[i];
        MUST(field->id < layout->n_fields);
        const struct codec_field *row = &layout->fields[field->id];
        MUST(row->name && strcmp(row->name, field->name) == 0);
        check_kind(message, row, field);
        check_absence(message, row, field);
        if (row->part) {
            check_layout(row->part);
        }
    }
    for (size_t i = 0; i < layout->n_fields; i++) {
        n_rows += layout->fields[i].name != NULL;
    }
    assert_int_equal(n_rows, layout->descriptor->n_fields);
}

TEST(fields, proto_fields_and_rows_correspond)
{
#define CHECK(NAME, name, number, sender)                                                          \
    assert_int_equal(codec_layout_of(MSG_##NAME)->size, sizeof(struct msg_##name));                \
    check_layout(codec_layout_of(MSG_##NAME));
    TFE_MSGS(CHECK)
#undef CHECK
}
