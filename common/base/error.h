/* common/base/error.h: the error codes of the project, each with its text. Pure. */
#ifndef TFE_COMMON_BASE_ERROR_H
#define TFE_COMMON_BASE_ERROR_H

/* Functions of this project return 0 or one of these codes. The constants are negative: write
 * return TFE_ENOMEM, not return -TFE_ENOMEM. The groups say how much has to be given up. */
#define TFE_ERRORS(X)                                                                              \
    /* Errors that refuse one request */                                                           \
    X(TFE_ENOMEM, -1, "out of memory")                                                             \
    X(TFE_EINVAL, -2, "a value is out of range")                                                   \
    X(TFE_EEXIST, -3, "already exists")                                                            \
    X(TFE_ENOENT, -4, "not found")                                                                 \
    X(TFE_ESTATE, -5, "not allowed in this state")                                                 \
    X(TFE_ETOOBIG, -6, "larger than its limit")                                                    \
    X(TFE_EMORE, -7, "more bytes are needed")                                                      \
    X(TFE_EUNKNOWN, -14, "unknown message type")                                                   \
    X(TFE_EDISK, -15, "disk I/O failed")                                                           \
    /* Errors that end one connection */                                                           \
    X(TFE_EPROTO, -8, "protocol violation")                                                        \
    X(TFE_EAUTH, -9, "not authorised")                                                             \
    X(TFE_EFULL, -11, "a queue is full")                                                           \
    /* Errors that end the program */                                                              \
    X(TFE_ESYS, -12, "a system call failed")                                                       \
    X(TFE_ECONFLICT, -16, "changed by another writer")

enum tfe_error {
#define TFE_ERROR_ENUM(name, code, sentence) name = (code),
    TFE_ERRORS(TFE_ERROR_ENUM)
#undef TFE_ERROR_ENUM
};

#if defined(__GNUC__)
#define TFE_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TFE_MUST_CHECK
#endif

/* Returns a static text, never NULL; "unknown error" for an unknown code. */
const char *tfe_error_sentence(int code);

#endif
