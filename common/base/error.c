/* common/base/error.c: texts of the error codes. */
#include "common/base/error.h"

const char *tfe_error_sentence(int code)
{
    switch (code) {
#define TFE_ERROR_SENTENCE(name, number, sentence)                                                 \
    case number:                                                                                   \
        return sentence;
        TFE_ERRORS(TFE_ERROR_SENTENCE)
#undef TFE_ERROR_SENTENCE
    }
    return "unknown error";
}
