/* agent/script_channel/checkpoint_name.h: what the names and the state file of TensorFlow's
 * checkpoints say. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_CHECKPOINT_NAME_H
#define TFE_AGENT_SCRIPT_CHANNEL_CHECKPOINT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The file that TensorFlow renames into place after every save: text of the protobuf
 * CheckpointState, the newest checkpoint first. */
#define CHECKPOINT_STATE_FILE "checkpoint"

/* Longest name of a file (NAME_MAX). */
#define CHECKPOINT_NAME_MAX 255

/* The name (without its folder) of the newest checkpoint that the state file's text names. False:
 * none is there, or only half of it. */
bool checkpoint_state_newest(const char *text, size_t n, char ret[CHECKPOINT_NAME_MAX + 1]);

/* The step in "ckpt-120": the digits behind the last hyphen. False: there are none. */
bool checkpoint_name_step(const char *name, uint64_t *ret);

/* Of a file that is part of a checkpoint ("ckpt-5_temp", "ckpt-5.index",
 * "ckpt-5.data-00000-of-00001") the length of the checkpoint's name; 0: it is none. */
size_t checkpoint_name_stem(const char *file);

/* The epoch in the name of a file that the tfe package has made: the marker "tfe-epoch-7", or the
 * checkpoint "ckpt-7-120.index". 0: there is none, or one that no server would count on from. */
uint64_t checkpoint_name_epoch(const char *file);

#endif
