/* server/store/memory.h: the store of --ephemeral: jobs live as long as the process. */
#ifndef TFE_SERVER_STORE_MEMORY_H
#define TFE_SERVER_STORE_MEMORY_H

#include "server/store/store.h"

/* TFE_ENOMEM. */
int memory_store_open(struct store **ret, struct tfe_why *why) TFE_MUST_CHECK;

#endif
