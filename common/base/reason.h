/* common/base/reason.h: one sentence for a person, built from the inside outwards. */
#ifndef TFE_COMMON_BASE_REASON_H
#define TFE_COMMON_BASE_REASON_H

/* The callee writes the specific half, each caller puts its own in front:
 * "load keys: open /var/lib/tfe/server.key: permission denied". Longer text is cut. */
struct tfe_reason {
    char text[512];
};

/* Replaces the text. */
void reason_set(struct tfe_reason *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Replaces the text and appends ": " and the description of errno. */
void reason_errno(struct tfe_reason *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Puts "<text>: " in front. */
void reason_prefix(struct tfe_reason *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
