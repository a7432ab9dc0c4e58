/* common/message/submission.h: what a submitted job requests from the pool. This is SPEC of the
 * protocol: SUBMIT carries it, ASSIGN forwards it and the store persists it. Pure. */
#ifndef TFE_COMMON_MESSAGE_SUBMISSION_H
#define TFE_COMMON_MESSAGE_SUBMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/message/range.h"

#define MSG_WORDS_MAX 256u /* words of a command; variables of an environment */
#define MSG_WORD_MAX 4096u /* bytes of one word of a command or one variable */
#define MSG_POOL_LABELS_MAX                                                                        \
    32u /* labels of a node; labels of a job over all roles; options of a job */
#define MSG_POOL_LABEL_MAX 128u /* bytes of one label K=V */
/* Bytes of the labels of a DEMAND_ROW with commas: a node's labels and two that the server adds. */
#define MSG_DEMAND_LABELS_MAX ((MSG_POOL_LABELS_MAX + 2) * (MSG_POOL_LABEL_MAX + 1))
#define MSG_ROLE_LABEL_MAX 140u /* bytes of a label with "ROLE:" before it */
#define MSG_SPEC_MAX                                                                               \
    (12u * 1024u) /* bytes of an encoded SPEC, which has to fit a frame with its message */
#define MSG_PRIORITY_MAX 1000u
#define MSG_PRIORITY_DEFAULT 500u
#define MSG_BACKOFF_MAX 1000000u
#define MSG_BUNDLE_HEX 64u                 /* characters of a bundle's digest */
#define MSG_BUNDLE_MAX (64u * 1024 * 1024) /* bytes of a bundle, which holds code and no data */
#define MSG_CHUNK_MAX (12u * 1024) /* bytes of a piece of a bundle, so that it fits a frame */
#define MSG_IMAGE_MAX 255u         /* bytes of the name of a container image */
#define MSG_FETCH_MAX (8u * MSG_CHUNK_MAX) /* bytes of a bundle that a node requests at once */

/* Where the job's files come from. */
#define TFE_SOURCES(X)                                                                             \
    X(SOURCE_NONE, 0, "none")                                                                      \
    X(SOURCE_PATH, 1, "path")     /* a directory that exists on each node */                       \
    X(SOURCE_BUNDLE, 2, "bundle") /* digest of a submitted bundle */                               \
    X(SOURCE_GIT, 3, "git")       /* git repository, URL@COMMIT */

/* Terms of Kubeflow's documentation; docs/operations.md defines them for this project. */
#define TFE_RESTART_POLICIES(X)                                                                    \
    X(RESTART_ON_FAILURE, 0, "OnFailure")                                                          \
    X(RESTART_NEVER, 1, "Never")                                                                   \
    X(RESTART_ALWAYS, 2, "Always")                                                                 \
    X(RESTART_EXIT_CODE, 3, "ExitCode")
#define TFE_CLEAN_POLICIES(X)                                                                      \
    X(CLEAN_RUNNING, 0, "Running")                                                                 \
    X(CLEAN_NONE, 1, "None")                                                                       \
    X(CLEAN_ALL, 2, "All")
#define TFE_SUCCESS_POLICIES(X)                                                                    \
    X(SUCCESS_DEFAULT, 0, "Default")                                                               \
    X(SUCCESS_ALL_WORKERS, 1, "AllWorkers")

/* Which framework's conventions TF_CONFIG follows. */
#define TFE_ENVIRONMENTS(X)                                                                        \
    X(ENVIRONMENT_TFE, 0, "tfe")                                                                   \
    X(ENVIRONMENT_KUBEFLOW, 1, "kubeflow")                                                         \
    X(ENVIRONMENT_KUBEFLOW_MASTER, 2, "kubeflow-master")                                           \
    X(ENVIRONMENT_KUBEFLOW_CHIEF, 3, "kubeflow-chief")

enum tfe_source { TFE_SOURCES(TFE_ENUMERATOR) };
enum tfe_restart_policy { TFE_RESTART_POLICIES(TFE_ENUMERATOR) };
enum tfe_clean_policy { TFE_CLEAN_POLICIES(TFE_ENUMERATOR) };
enum tfe_success_policy { TFE_SUCCESS_POLICIES(TFE_ENUMERATOR) };
enum tfe_environment { TFE_ENVIRONMENTS(TFE_ENUMERATOR) };

struct msg_spec {
    const char *name;   /* name of the job, a tfe_id */
    uint32_t priority;  /* higher values are scheduled first; MSG_UNSET for MSG_PRIORITY_DEFAULT */
    uint32_t min_nodes; /* minimum number of workers */
    uint32_t max_nodes; /* maximum number of workers, used if nodes are available */
    uint32_t n_ps;      /* number of parameter servers, each on a node of its own */
    bool chief;
    bool evaluator;
    uint32_t nproc;          /* trainers per worker node */
    const char *const *argv; /* the command, 1 to MSG_WORDS_MAX words */
    size_t n_argv;
    const char *const *env; /* environment variables, each NAME=VALUE */
    size_t n_env;
    const char *const *labels; /* labels K=V that a node must carry for any role */
    size_t n_labels;
    const char *const *role_labels; /* labels ROLE:K=V that a node must carry for that role */
    size_t n_role_labels;
    enum tfe_source source_kind;
    const char *source;         /* source of the job's files; "" if none */
    const char *const *options; /* options of tfe-agent, each NAME=VALUE, or NAME for a flag */
    size_t n_options;
    bool preempt; /* the job may preempt jobs of lower priority to reach its minimum */
    enum tfe_restart_policy restart_policy;
    uint32_t backoff_limit;      /* failed attempts before the job fails; MSG_UNSET for the server's
                                    setting */
    uint32_t active_deadline_ms; /* maximum duration of the job; 0 for unlimited */
    uint32_t ttl_after_finished_ms; /* time after which a finished job is deleted; MSG_UNSET to keep
                                       it until it is forgotten */
    enum tfe_clean_policy clean_policy;
    enum tfe_success_policy success_policy;
    bool suspend;
    enum tfe_environment environment;
    const char *work_dir; /* working directory, absolute or relative to the job's files; NULL for
                             the root of the files */
    /* Restart policy of each role, encoded as in job_spec.h; MSG_UNSET if all roles have
     * restart_policy. */
    uint32_t restart_policies;
    const char
        *image; /* container image whose file system the trainers see; NULL for the node's own */
};

/* Returns the commit (40 or 64 digits) within a git source URL@COMMIT, or NULL if the text is
 * none. */
static inline const char *submission_commit(const char *source)
{
    const char *at = source;
    const char *last = 0;
    size_t n = 0;
    for (; *at != '\0'; at++) {
        last = *at == '@' ? at : last;
    }
    if (!last || last == source || *source == '-') {
        return 0;
    }
    for (at = last + 1; (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f'); at++) {
        n++;
    }
    return *at == '\0' && (n == 40 || n == 64) ? last + 1 : 0;
}

/* True if the text has the form of a bundle's digest. */
static inline bool submission_is_digest(const char *source)
{
    size_t n = 0;
    while ((source[n] >= '0' && source[n] <= '9') || (source[n] >= 'a' && source[n] <= 'f')) {
        n++;
    }
    return n == MSG_BUNDLE_HEX && source[n] == '\0';
}

/* True if text[0..n) is one of the words of a NULL-terminated array. */
static inline bool submission_is_word(const char *text, size_t n, const char *const *words)
{
    for (; *words; words++) {
        if (strlen(*words) == n && strncmp(*words, text, n) == 0) {
            return true;
        }
    }
    return false;
}

/* True if the text has the form of an image name in a registry. Rejects options of the container
 * engine, and transports such as dir:/etc that read files of the machine. */
static inline bool submission_is_image(const char *text)
{
    static const char *const places[] = {"atomic",
                                         "containers-storage",
                                         "dir",
                                         "docker",
                                         "docker-archive",
                                         "docker-daemon",
                                         "http",
                                         "https",
                                         "oci",
                                         "oci-archive",
                                         "ostree",
                                         "sif",
                                         "tarball",
                                         0};
    size_t n = 0;
    size_t first = 0; /* characters before the first ':' */
    for (; text[n] != '\0'; n++) {
        const char c = text[n];
        const bool is_word =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_word && (n == 0 || (c != '.' && c != '_' && c != '-' && c != '/' && c != ':' &&
                                    c != '@' && c != '+'))) {
            return false;
        }
        first = c == ':' && first == 0 ? n : first;
    }
    return n > 0 && n <= MSG_IMAGE_MAX && !submission_is_word(text, first, places);
}

#endif
