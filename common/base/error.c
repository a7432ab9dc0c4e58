/* common/base/error.c: names and sentences of the error codes. */
#include "common/base/error.h"

const char *tfe_error_name(int code)
{
    switch (code) {
#define TFE_ERROR_NAME(name, number, band, sentence)                                               \
    case number:                                                                                   \
        return #name;
        TFE_ERRORS(TFE_ERROR_NAME)
#undef TFE_ERROR_NAME
    }
    return "TFE_E?";
}

const char *tfe_error_sentence(int code)
{
    switch (code) {
#define TFE_ERROR_SENTENCE(name, number, band, sentence)                                           \
    case number:                                                                                   \
        return sentence;
        TFE_ERRORS(TFE_ERROR_SENTENCE)
#undef TFE_ERROR_SENTENCE
    }
    return "unknown error";
}

enum tfe_band tfe_error_band(int code)
{
    switch (code) {
#define TFE_ERROR_BAND(name, number, band, sentence)                                               \
    case number:                                                                                   \
        return band;
        TFE_ERRORS(TFE_ERROR_BAND)
#undef TFE_ERROR_BAND
    }
    return TFE_BAND_PROCESS;
}
