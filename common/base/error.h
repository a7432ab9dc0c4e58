/* common/base/error.h: the one list of error codes, each with its sentence. Pure. */
#ifndef TFE_COMMON_BASE_ERROR_H
#define TFE_COMMON_BASE_ERROR_H

/* A function of this project returns 0, or the negative of one of these (return -TFE_ENOMEM is
 * spelled return TFE_ENOMEM: the constants are negative already). The comments
 * between them say how far the damage reaches. */
#define TFE_ERRORS(X)                                                                              \
    /* refuse one request */                                                                       \
    X(TFE_ENOMEM, -1, "out of memory")                                                             \
    X(TFE_EINVAL, -2, "a value is out of its range")                                               \
    X(TFE_EEXIST, -3, "it exists already")                                                         \
    X(TFE_ENOENT, -4, "no such thing")                                                             \
    X(TFE_ESTATE, -5, "not legal in this state")                                                   \
    X(TFE_ETOOBIG, -6, "larger than its limit")                                                    \
    X(TFE_EMORE, -7, "more bytes are needed")                                                      \
    X(TFE_EUNKNOWN, -14, "unknown message type")                                                   \
    X(TFE_EDISK, -15, "the disk did not take it or did not give it")                               \
    /* end one connection */                                                                       \
    X(TFE_EPROTO, -8, "the bytes break the protocol")                                              \
    X(TFE_EAUTH, -9, "not authorised")                                                             \
    X(TFE_EFULL, -11, "a queue is full")                                                           \
    /* end the program */                                                                          \
    X(TFE_ESYS, -12, "a system call failed")                                                       \
    X(TFE_ECONFLICT, -16, "somebody else has changed it meanwhile")

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

/* Static, never NULL; an unknown code gives "unknown error". */
const char *tfe_error_sentence(int code);

#endif
