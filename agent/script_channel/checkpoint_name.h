/* agent/script_channel/checkpoint_name.h: parses the file names and the state file of
 * TensorFlow checkpoints. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_CHECKPOINT_NAME_H
#define TFE_AGENT_SCRIPT_CHANNEL_CHECKPOINT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* State file that TensorFlow renames into place after every save: a CheckpointState protobuf as
 * text, newest checkpoint first. */
#define CHECKPOINT_STATE_FILE "checkpoint"

/* Maximum length of a file name (NAME_MAX). */
#define CHECKPOINT_NAME_MAX 255

/* Stores the name, without its directory, of the newest checkpoint in the state file's text.
 * Returns false if the text names none or is incomplete. */
bool checkpoint_state_newest(const char *text, size_t n, char ret[CHECKPOINT_NAME_MAX + 1]);

/* Parses the step in "ckpt-120": the digits after the last hyphen. Returns false
 * if there are none. */
bool checkpoint_name_step(const char *name, uint64_t *ret);

/* Returns the length of the checkpoint's name in the name of one of its files ("ckpt-5_temp",
 * "ckpt-5.index", "ckpt-5.data-00000-of-00001"), or 0 for other files. */
size_t checkpoint_name_stem(const char *file);

/* Returns the epoch in the name of a file that the tfe package created (marker "tfe-epoch-7" or
 * checkpoint "ckpt-7-120.index"), or 0 if there is none or it exceeds the limit for epochs. */
uint64_t checkpoint_name_epoch(const char *file);

#endif
