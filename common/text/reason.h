/* common/text/reason.h: an error message for humans; each caller prepends its context. */
#ifndef TFE_COMMON_TEXT_REASON_H
#define TFE_COMMON_TEXT_REASON_H

/* An error message. The callee writes the specific part, each caller prepends its own: "load keys:
 * open /var/lib/tfe/server.key: permission denied". Longer text is truncated. */
struct tfe_reason {
    char text[512];
};

/* Replaces the text. */
void reason_set(struct tfe_reason *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Replaces the text and appends ": " and the description of errno. */
void reason_errno(struct tfe_reason *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prepends "<text>: ". */
void reason_prefix(struct tfe_reason *reason, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
