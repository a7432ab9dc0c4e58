/* server/core/sound.h: validation of a record, before it is written and when it is read. */
#ifndef TFE_SERVER_CORE_SOUND_H
#define TFE_SERVER_CORE_SOUND_H

#include <stdbool.h>

#include "server/core/rdzv.h"

bool record_is_sound(const struct rdzv_record *record);

#endif
