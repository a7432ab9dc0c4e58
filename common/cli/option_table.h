/* common/cli/option_table.h: macros for rows of option tables (options.h). The including file
 * defines FIELD(name) as the offset of a field in its settings. */
#ifndef TFE_COMMON_CLI_OPTION_TABLE_H
#define TFE_COMMON_CLI_OPTION_TABLE_H

#include "common/cli/options.h"
#include "common/message/job_spec.h"

#define OPTION_DAY_MS 86400000u

#define OPTION_ROW(kind_, name_, argument_, fallback_, help_, ...)                                 \
    {                                                                                              \
        .kind = kind_, .name = name_, .argument = argument_, .fallback = fallback_, .help = help_, \
        __VA_ARGS__                                                                                \
    }
#define OPTION_RANGE(field, low, high) .offset = FIELD(field), .min = (low), .max = (high)
#define FLAG(name, field, help)                                                                    \
    OPTION_ROW(OPTION_FLAG, name, NULL, NULL, help, .offset = FIELD(field))
#define TEXT(name, field, argument, fallback, help)                                                \
    OPTION_ROW(OPTION_TEXT, name, argument, fallback, help, .offset = FIELD(field))
#define PARSE(name, parser, argument, fallback, help)                                              \
    OPTION_ROW(OPTION_PARSE, name, argument, fallback, help, .parse = (parser))
#define PARSE_FIELD(name, field, parser, argument, fallback, help)                                 \
    OPTION_ROW(OPTION_PARSE, name, argument, fallback, help, .parse = (parser),                    \
               .offset = FIELD(field))
#define WORD(name, field, words_, argument, fallback, help)                                        \
    OPTION_ROW(OPTION_WORD, name, argument, fallback, help, .words = (words_),                     \
               .offset = FIELD(field))
#define NUMBER(name, field, argument, low, high, fallback, help)                                   \
    OPTION_ROW(OPTION_NUMBER, name, argument, fallback, help, OPTION_RANGE(field, low, high))
#define TIME(name, field, low, high, fallback, help)                                               \
    OPTION_ROW(OPTION_DURATION, name, "TIME", fallback, help, OPTION_RANGE(field, low, high))

/* Maps the kind of a job_spec field to the kind of its option. */
#define OPTION_OF_COUNT OPTION_NUMBER
#define OPTION_OF_DURATION OPTION_DURATION
#define OPTION_OF_FLAG OPTION_FLAG

#endif
