/* common/message/submission.h: what a job that is handed in wants of the pool: SPEC of the
 * protocol, as SUBMIT brings it, ASSIGN hands it on and the store keeps it. Pure. */
#ifndef TFE_COMMON_MESSAGE_SUBMISSION_H
#define TFE_COMMON_MESSAGE_SUBMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/range.h"

#define MSG_WORDS_MAX 256u      /* of a command; variables of an environment */
#define MSG_WORD_MAX 4096u      /* bytes of one of them */
#define MSG_POOL_LABELS_MAX 32u /* of a node; of a job, of all roles together; options */
#define MSG_POOL_LABEL_MAX 128u /* bytes of K=V */
/* Of a DEMAND_ROW, with commas: a node's labels, and two that the server adds. */
#define MSG_DEMAND_LABELS_MAX ((MSG_POOL_LABELS_MAX + 2) * (MSG_POOL_LABEL_MAX + 1))
#define MSG_ROLE_LABEL_MAX 140u /* … with "ROLE:" in front of it */
#define MSG_SPEC_MAX                                                                               \
    (12u * 1024u) /* bytes of an encoded SPEC: it fits a frame with what is around it */
#define MSG_PRIORITY_MAX 1000u
#define MSG_PRIORITY_DEFAULT 500u
#define MSG_BACKOFF_MAX 1000000u
#define MSG_BUNDLE_HEX 64u                 /* characters of a bundle's digest */
#define MSG_BUNDLE_MAX (64u * 1024 * 1024) /* bytes of a bundle: code, no data */
#define MSG_CHUNK_MAX (12u * 1024)         /* … of a piece of it: it fits a frame */
#define MSG_IMAGE_MAX 255u                 /* of the name of a container's image */
#define MSG_FETCH_MAX (8u * MSG_CHUNK_MAX) /* … that are asked for at once */

/* Where the job's files are. */
#define TFE_SOURCES(X)                                                                             \
    X(SOURCE_NONE, 0, "none")                                                                      \
    X(SOURCE_PATH, 1, "path")     /* a directory that each node has */                             \
    X(SOURCE_BUNDLE, 2, "bundle") /* the digest of what was handed in */                           \
    X(SOURCE_GIT, 3, "git")       /* URL@COMMIT */

/* Words of Kubeflow's documentation; docs/operations.md says what they mean here. */
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

/* Whose habits TF_CONFIG follows. */
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
    const char *name;   /* tfe_id, the job's */
    uint32_t priority;  /* more is earlier; MSG_UNSET: MSG_PRIORITY_DEFAULT */
    uint32_t min_nodes; /* that work … */
    uint32_t max_nodes; /* … and, where they are there, up to so many */
    uint32_t n_ps;      /* one more node each, as chief and evaluator */
    bool chief;
    bool evaluator;
    uint32_t nproc;          /* trainers of a node that works */
    const char *const *argv; /* the command; 1 to MSG_WORDS_MAX */
    size_t n_argv;
    const char *const *env; /* NAME=VALUE */
    size_t n_env;
    const char *const *labels; /* K=V, that a node must carry for any role */
    size_t n_labels;
    const char *const *role_labels; /* ROLE:K=V, … for that one */
    size_t n_role_labels;
    enum tfe_source source_kind;
    const char *source;         /* "" none */
    const char *const *options; /* of tfe-agent: NAME=VALUE, or NAME of a flag */
    size_t n_options;
    bool preempt; /* for its minimum it ends jobs of lower priority */
    enum tfe_restart_policy restart_policy;
    uint32_t backoff_limit;         /* MSG_UNSET: the server's setting */
    uint32_t active_deadline_ms;    /* 0: none */
    uint32_t ttl_after_finished_ms; /* MSG_UNSET: it is remembered until it is forgotten */
    enum tfe_clean_policy clean_policy;
    enum tfe_success_policy success_policy;
    bool suspend;
    enum tfe_environment environment;
    const char *work_dir; /* below the files, or absolute; NULL: the files' own */
    /* Of each role, as in job_spec.h; MSG_UNSET: all have restart_policy. */
    uint32_t restart_policies;
    const char *image; /* of a container, whose files the trainers see; NULL: the node's own */
};

/* The commit of a source of git, URL@COMMIT: 40 or 64 digits; NULL: it is none. */
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

/* Whether it may be the digest of a bundle. */
static inline bool submission_is_digest(const char *source)
{
    size_t n = 0;
    while ((source[n] >= '0' && source[n] <= '9') || (source[n] >= 'a' && source[n] <= 'f')) {
        n++;
    }
    return n == MSG_BUNDLE_HEX && source[n] == '\0';
}

/* Whether text[0..n) is one of the words, which NULL ends. */
static inline bool submission_is_word(const char *text, size_t n, const char *const *words)
{
    for (; *words; words++) {
        if (strlen(*words) == n && strncmp(*words, text, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether it may be the name of an image in a registry: no option of an engine, and none of the
 * other places that one takes images from (dir:/etc), which are files of the machine. */
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
    size_t first = 0; /* characters in front of the first ':' */
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
