/* common/base/error.h: the one list of error codes, each with its sentence and its band. Pure. */
#ifndef TFE_COMMON_BASE_ERROR_H
#define TFE_COMMON_BASE_ERROR_H

/* A function of this project returns 0, or the negative of one of these (return -TFE_ENOMEM is
 * spelled return TFE_ENOMEM: the constants are negative already). The band says how far the damage
 * reaches: REQUEST refuses one request, SESSION ends one connection, PROCESS ends the program. */
#define TFE_ERRORS(X)                                                                              \
    X(TFE_ENOMEM, -1, TFE_BAND_REQUEST, "out of memory")                                           \
    X(TFE_EINVAL, -2, TFE_BAND_REQUEST, "a value is out of its range")                             \
    X(TFE_EEXIST, -3, TFE_BAND_REQUEST, "it exists already")                                       \
    X(TFE_ENOENT, -4, TFE_BAND_REQUEST, "no such thing")                                           \
    X(TFE_ESTATE, -5, TFE_BAND_REQUEST, "not legal in this state")                                 \
    X(TFE_ETOOBIG, -6, TFE_BAND_REQUEST, "larger than its limit")                                  \
    X(TFE_EMORE, -7, TFE_BAND_REQUEST, "more bytes are needed")                                    \
    X(TFE_EPROTO, -8, TFE_BAND_SESSION, "the bytes break the protocol")                            \
    X(TFE_EAUTH, -9, TFE_BAND_SESSION, "not authorised")                                           \
    X(TFE_ECLOSED, -10, TFE_BAND_SESSION, "the connection is closed")                              \
    X(TFE_EFULL, -11, TFE_BAND_SESSION, "a queue is full")                                         \
    X(TFE_ESYS, -12, TFE_BAND_PROCESS, "a system call failed")                                     \
    X(TFE_EEXPIRED, -13, TFE_BAND_SESSION, "expired")                                              \
    X(TFE_EUNKNOWN, -14, TFE_BAND_REQUEST, "unknown message type")                                 \
    X(TFE_EDISK, -15, TFE_BAND_REQUEST, "the disk did not take it or did not give it")             \
    X(TFE_ECONFLICT, -16, TFE_BAND_PROCESS, "somebody else has changed it meanwhile")

enum tfe_band { TFE_BAND_REQUEST, TFE_BAND_SESSION, TFE_BAND_PROCESS };

enum tfe_error {
#define TFE_ERROR_ENUM(name, code, band, sentence) name = (code),
    TFE_ERRORS(TFE_ERROR_ENUM)
#undef TFE_ERROR_ENUM
};

#if defined(__GNUC__)
#define TFE_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TFE_MUST_CHECK
#endif

/* Name ("TFE_ENOMEM") and sentence of a code. Unknown codes give "TFE_E?" and "unknown error".
 * Static strings, never NULL. */
const char *tfe_error_name(int code);
const char *tfe_error_sentence(int code);

/* Band of a code; an unknown code is TFE_BAND_PROCESS. */
enum tfe_band tfe_error_band(int code);

#endif
