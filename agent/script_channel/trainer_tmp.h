/* agent/script_channel/trainer_tmp.h: the trainers' $TMPDIR in the agent's private directory: one
 * per epoch, removed in the background after the epoch's end. */
#ifndef TFE_AGENT_SCRIPT_CHANNEL_TRAINER_TMP_H
#define TFE_AGENT_SCRIPT_CHANNEL_TRAINER_TMP_H

struct event_base;
struct private_dir;
struct trainer_tmp;

/* Borrows dir, which may be missing (fd -1); the functions below then do nothing. */
struct trainer_tmp *trainer_tmp_new(struct event_base *base, const struct private_dir *dir);
/* What is not removed yet is left to private_dir_done. */
void trainer_tmp_free(struct trainer_tmp *t);

/* Creates the directory PRIVATE_DIR_TMP. On failure Python falls back to /tmp. */
void trainer_tmp_begin(struct trainer_tmp *t);
/* Renames the directory and removes it in later events, so that the next start does not wait. */
void trainer_tmp_end(struct trainer_tmp *t);

#endif
