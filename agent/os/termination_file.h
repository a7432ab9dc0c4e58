/* agent/os/termination_file.h: death certificates that guards left for the next agent of the
 * machine.
 */
#ifndef TFE_AGENT_OS_TERMINATION_FILE_H
#define TFE_AGENT_OS_TERMINATION_FILE_H

#include <stddef.h>

#include "common/base/id.h"
#include "common/channel/termination_proof.h"

/* In /tmp, else in $XDG_RUNTIME_DIR, beside the agents' directories (private_dir.h): "tfe-dead-"
 * and the first digits of the certificate's hash. */
#define TERMINATION_FILE_PATH_MAX 256
#define TERMINATION_FILE_TEXT_MAX (PROOF_LINE_MAX + sizeof("job \n") + TFE_ID_MAX)

/* Where the file will be, and what will be in it; "": nowhere. Of a guard that wants to allocate,
 * look up and decide nothing by the time it is written. */
struct termination_file {
    char path[TERMINATION_FILE_PATH_MAX];
    char line[PROOF_LINE_MAX];
};

void termination_file_plan(struct termination_file *file, const struct tfe_id *hash,
                           const char *certificate);

/* 0600, and never over something that is there. Whoever does not find it waits as before. */
void termination_file_write(const struct termination_file *file, const char *job);
void termination_file_remove(const struct termination_file *file);

/* More agents of a job than were killed on one machine within a fence. */
#define TERMINATION_FILES_MAX 8

/* The newest of this user's for the job; returns how many. What is older than a day is removed. */
size_t termination_files_find(const char *job, char ret[TERMINATION_FILES_MAX][PROOF_CHARS + 1]);

#endif
