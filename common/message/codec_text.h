/* common/message/codec_text.h: validators of the text fields in codec_fields.c. Private to it. */
#ifndef TFE_COMMON_MESSAGE_CODEC_TEXT_H
#define TFE_COMMON_MESSAGE_CODEC_TEXT_H

#include <stdbool.h>
#include <string.h>

#include "common/base/id.h"
#include "common/message/msg.h"

#define HOST_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]%"

#define METRIC_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/-"
#define SCOPE_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_*"

/* True for host names and addresses, including IPv6 with zone. No permitted character needs quoting
 * in TF_CONFIG's JSON. */
static inline bool is_host(const char *text)
{
    return text[strspn(text, HOST_CHARACTERS)] == '\0';
}

static inline bool is_line(const char *text)
{
    while ((unsigned char)*text >= 0x20 && *text != 0x7f) {
        text++;
    }
    return *text == '\0';
}

/* True for a job pattern: an id in which '*' matches any run of characters. */
static inline bool is_scope(const char *text)
{
    return text[strspn(text, SCOPE_CHARACTERS)] == '\0';
}

static inline bool is_metric_name(const char *text)
{
    return text[strspn(text, METRIC_CHARACTERS)] == '\0';
}

static inline bool is_id_or_empty(const char *text)
{
    return text[0] == '\0' || id_is_valid(text);
}

/* True for K=V of visible characters without commas, which separate labels in texts. A leading '@'
 * is reserved for labels that the server adds. */
static inline bool is_label(const char *text)
{
    const char *at = text;
    while ((unsigned char)*at > 0x20 && *at != 0x7f && *at != ',') {
        at++;
    }
    return *at == '\0' && *text != '=' && *text != '@' && strchr(text, '=');
}

static inline bool is_hex(const char *text)
{
    size_t n = strspn(text, "0123456789abcdef");
    return text[n] == '\0' && n % 2 == 0;
}

#endif
