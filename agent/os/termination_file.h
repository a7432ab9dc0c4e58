/* agent/os/termination_file.h: files in which guards leave proofs of termination for later
 * agents on the same machine. */
#ifndef TFE_AGENT_OS_TERMINATION_FILE_H
#define TFE_AGENT_OS_TERMINATION_FILE_H

#include <stddef.h>

#include "common/base/id.h"
#include "common/credentials/node_secrets.h"

/* The file is in a private_dir_base, like the agents' private directories, and is named "tfe-dead-"
 * plus the first digits of the proof's hash. */
#define TERMINATION_FILE_PATH_MAX 256
#define TERMINATION_FILE_TEXT_MAX (PROOF_LINE_MAX + sizeof("job \n") + TFE_ID_MAX)

/* Path ("" if no directory is writable) and contents of the file, prepared early so that the
 * guard need not allocate or look up anything when it writes the file. */
struct termination_file {
    char path[TERMINATION_FILE_PATH_MAX];
    char line[PROOF_LINE_MAX];
};

void termination_file_plan(struct termination_file *file, const struct tfe_id *hash,
                           const char *certificate);

/* Creates the file with mode 0600, never over an existing one. Without the file other nodes wait
 * for the lease to end. */
void termination_file_write(const struct termination_file *file, const char *job);
void termination_file_remove(const struct termination_file *file);

/* Maximum number of files read: more agents of a job than are killed on one
 * machine within a fence. */
#define TERMINATION_FILES_MAX 8

/* Reads the newest proofs of this user for the job; returns their number. Removes
 * files older than a day. */
size_t termination_files_find(const char *job, char ret[TERMINATION_FILES_MAX][PROOF_CHARS + 1]);

#endif
