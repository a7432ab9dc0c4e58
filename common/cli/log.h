/* common/cli/log.h: the programs' log: one event per line on stderr, for machines (logfmt, JSON)
 * or humans. */
#ifndef TFE_COMMON_CLI_LOG_H
#define TFE_COMMON_CLI_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG_, LOG_INFO_, LOG_WARN_, LOG_ERROR_ };
/* Log formats. AUTO selects PRETTY on a terminal, else LOGFMT. */
enum log_format { LOG_AUTO, LOG_LOGFMT, LOG_JSON, LOG_PRETTY };

/* Arguments of --log-level and --log-format in the order of the enums; NULL-terminated. */
extern const char *const log_levels[], *const log_formats[];

/* Configures the log. program is a static string that is retained. Call before a second thread
 * starts. Defaults: "tfe", info, logfmt. */
void log_init(const char *program, enum log_level min, enum log_format format);

/* One field of a log line. Use the typed macros below to create it. */
struct log_field {
    const char *key;
    enum { LOG_F_STR, LOG_F_U64, LOG_F_I64, LOG_F_BOOL } kind;
    const char *str; /* text of a string field; the field is omitted if NULL */
    uint64_t u64;
    int64_t i64;
};

#define LOG_S(k, v) ((struct log_field){.key = (k), .kind = LOG_F_STR, .str = (v)})
#define LOG_U(k, v) ((struct log_field){.key = (k), .kind = LOG_F_U64, .u64 = (uint64_t)(v)})
#define LOG_I(k, v) ((struct log_field){.key = (k), .kind = LOG_F_I64, .i64 = (int64_t)(v)})
#define LOG_B(k, v) ((struct log_field){.key = (k), .kind = LOG_F_BOOL, .u64 = (v) ? 1u : 0u})

/* Writes one line (time, level, program, event, fields) with one write(2), without blocking: if
 * stderr accepts nothing, the line is dropped and the next line reports the number (dropped=N).
 * Preserves errno. Quotes values as logfmt or JSON requires; truncates a line at 4 KiB and adds
 * cut=true. event is a constant word or phrase; variable data belongs into fields. Never pass a
 * secret. */
void log_line(enum log_level level, const char *event, const struct log_field *fields, unsigned n);

/* Usage: log_info("joined", LOG_S("node", id), LOG_U("epoch", epoch)); fields are optional. */
#define LOG_AT(level, event, ...)                                                                  \
    log_line(                                                                                      \
        (level), (event), (const struct log_field[]){__VA_ARGS__},                                 \
        (unsigned)(sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field)))
/* Terminator of every field list, because a C11 variadic macro needs an argument; not written. */
#define LOG_END_ ((struct log_field){.key = NULL})
#define log_debug(...) LOG_AT(LOG_DEBUG_, __VA_ARGS__, LOG_END_)
#define log_info(...) LOG_AT(LOG_INFO_, __VA_ARGS__, LOG_END_)
#define log_warn(...) LOG_AT(LOG_WARN_, __VA_ARGS__, LOG_END_)
#define log_error(...) LOG_AT(LOG_ERROR_, __VA_ARGS__, LOG_END_)

#endif
