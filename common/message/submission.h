/* common/message/submission.h: limits of submitted jobs, whose form is a job file
 * (common/job/job_file.h), and of their bundles. Pure. */
#ifndef TFE_COMMON_MESSAGE_SUBMISSION_H
#define TFE_COMMON_MESSAGE_SUBMISSION_H

#include <stdbool.h>
#include <stddef.h>

#include "common/message/range.h"

#define MSG_WORDS_MAX 256u /* words of a command; variables of an environment */
#define MSG_WORD_MAX 4096u /* bytes of one word of a command or one variable */
#define MSG_POOL_LABELS_MAX                                                                        \
    32u /* labels of a node; labels of a job over all roles; options of a job */
#define MSG_POOL_LABEL_MAX 128u /* bytes of one label K=V */
/* Bytes of the labels of a DEMAND_ROW with commas: a node's labels and two that the server adds. */
#define MSG_DEMAND_LABELS_MAX ((MSG_POOL_LABELS_MAX + 2) * (MSG_POOL_LABEL_MAX + 1))
#define MSG_SPEC_MAX                                                                               \
    (12u * 1024u) /* bytes of a job's canonical text, which has to fit a frame with its message */
#define MSG_SUBMIT_MAX (14u * 1024u) /* bytes of a submitted job before it is made canonical */
#define MSG_MASKS_MAX 64u            /* bytes by which hidden secrets may lengthen the text */
#define MSG_PRIORITY_MAX 1000u
#define MSG_PRIORITY_DEFAULT 500u
#define MSG_BUNDLE_HEX 64u                 /* characters of a bundle's digest */
#define MSG_BUNDLE_MAX (64u * 1024 * 1024) /* bytes of a bundle, which holds code and no data */
#define MSG_CHUNK_MAX (12u * 1024) /* bytes of a piece of a bundle, so that it fits a frame */
#define MSG_IMAGE_MAX 255u         /* bytes of the name of a container image */
#define MSG_FETCH_MAX (8u * MSG_CHUNK_MAX) /* bytes of a bundle that a node requests at once */

/* Terms of Kubeflow's documentation; docs/operations.md defines them for this project. */
#define TFE_RESTART_POLICIES(X)                                                                    \
    X(RESTART_ON_FAILURE, 0, "OnFailure")                                                          \
    X(RESTART_NEVER, 1, "Never")                                                                   \
    X(RESTART_ALWAYS, 2, "Always")                                                                 \
    X(RESTART_EXIT_CODE, 3, "ExitCode")

enum tfe_restart_policy { TFE_RESTART_POLICIES(TFE_ENUMERATOR) };

/* True if the text has the form of a bundle's digest. */
static inline bool submission_is_digest(const char *source)
{
    size_t n = 0;
    while ((source[n] >= '0' && source[n] <= '9') || (source[n] >= 'a' && source[n] <= 'f')) {
        n++;
    }
    return n == MSG_BUNDLE_HEX && source[n] == '\0';
}

#endif
