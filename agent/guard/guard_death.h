/* agent/guard/guard_death.h: the death certificate of an agent, in the hands of its guard. */
#ifndef TFE_AGENT_GUARD_GUARD_DEATH_H
#define TFE_AGENT_GUARD_GUARD_DEATH_H

#include <stdint.h>

#include "agent/os/termination_file.h"

/* All that giving it out will need, made while the agent lives. */
struct guard_death {
    struct tfe_id hash;
    uint16_t port;
    int fd; /* bound to it, refusing until it listens; -1: to none */
    struct termination_file file;
    struct tfe_id *job; /* shared with the agent, who may learn it later */
};

/* Makes one; job "": guard_process has where it is to be put. Where no port can be had there is
 * still the file. Precondition: sodium_init. */
void guard_death_make(struct guard_death *death, const char *job);
/* The agent's copy, once its guard has its own. */
void guard_death_forget(struct guard_death *death);

/* From now on it can be had, on the port of this socket and in the file. */
void guard_death_tell(const struct guard_death *death, int fd);
/* Gives it to whoever connects, until then (CLOCK_BOOTTIME), or until SIGTERM. Precondition: the
 * guard has nothing else to do any more. */
void guard_death_serve(const struct guard_death *death, int fd, int64_t until_ms);

#endif
