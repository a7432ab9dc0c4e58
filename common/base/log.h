/* common/base/log.h: the programs' own log: one event a line on stderr, for programs (logfmt, JSON)
 * or for people. */
#ifndef TFE_COMMON_BASE_LOG_H
#define TFE_COMMON_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG_, LOG_INFO_, LOG_WARN_, LOG_ERROR_ };
/* AUTO: PRETTY on a terminal, else LOGFMT. */
enum log_format { LOG_AUTO, LOG_LOGFMT, LOG_JSON, LOG_PRETTY };

/* The words that --log-level and --log-format take, in the order of the enums; NULL ends them. */
extern const char *const log_levels[], *const log_formats[];

/* Settings of the process's log. program is kept (static string). Without it: "tfe", info, logfmt.
 * Call it before a second thread starts. */
void log_init(const char *program, enum log_level least, enum log_format format);

/* A field of a line. Made by the macros below, which keep key and value typed. */
struct log_field {
    const char *key;
    enum { LOG_F_STR, LOG_F_U64, LOG_F_I64, LOG_F_BOOL } kind;
    const char *str; /* NULL: the field is left out */
    uint64_t u64;
    int64_t i64;
};

#define LOG_S(k, v) ((struct log_field){.key = (k), .kind = LOG_F_STR, .str = (v)})
#define LOG_U(k, v) ((struct log_field){.key = (k), .kind = LOG_F_U64, .u64 = (uint64_t)(v)})
#define LOG_I(k, v) ((struct log_field){.key = (k), .kind = LOG_F_I64, .i64 = (int64_t)(v)})
#define LOG_B(k, v) ((struct log_field){.key = (k), .kind = LOG_F_BOOL, .u64 = (v) ? 1u : 0u})

/* Writes one line: time, level, program, event, fields, in one write(2); never blocks training: if
 * stderr takes nothing, the line is dropped and counted, and the next one says how many were
 * (dropped=N). Saves and restores errno. Values are quoted as logfmt or JSON needs; a line is cut
 * at 4 KiB (what a pipe takes whole) and then says cut=true. event is a word or a short sentence
 * that does not change; what changes goes into fields. Never pass a secret. */
void log_line(enum log_level level, const char *event, const struct log_field *fields, unsigned n);

/* log_info("joined", LOG_S("node", id), LOG_U("epoch", epoch)); fields are optional. */
#define LOG_AT(level, event, ...)                                                                  \
    log_line(                                                                                      \
        (level), (event), (const struct log_field[]){__VA_ARGS__},                                 \
        (unsigned)(sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field)))
/* Ends every list, so that none is empty (which C11's variadic macros cannot take); left out. */
#define LOG_END_ ((struct log_field){.key = NULL})
#define log_debug(...) LOG_AT(LOG_DEBUG_, __VA_ARGS__, LOG_END_)
#define log_info(...) LOG_AT(LOG_INFO_, __VA_ARGS__, LOG_END_)
#define log_warn(...) LOG_AT(LOG_WARN_, __VA_ARGS__, LOG_END_)
#define log_error(...) LOG_AT(LOG_ERROR_, __VA_ARGS__, LOG_END_)

#endif
