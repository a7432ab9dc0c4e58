/* agent/guard/guard_proof.h: the proof of termination of an agent, which its guard reveals once
 * all processes of the node have ended. */
#ifndef TFE_AGENT_GUARD_GUARD_PROOF_H
#define TFE_AGENT_GUARD_GUARD_PROOF_H

#include <stdint.h>

#include "agent/os/termination_file.h"

/* Resources for revealing the proof, allocated while the agent is alive. */
struct guard_proof {
    struct tfe_id hash;
    uint16_t port;
    int fd; /* bound to port but not listening, so connections are refused; -1 if none */
    struct termination_file file;
    struct tfe_id job;
};

/* Creates a proof of termination. Without a free port only the file is used. Precondition:
 * sodium_init. */
void guard_proof_make(struct guard_proof *proof, const char *job);
/* Erases the agent's copy after the fork. */
void guard_proof_erase(struct guard_proof *proof);

/* Reveals the proof: listens on the port of fd and writes the file. */
void guard_proof_reveal(const struct guard_proof *proof, int fd);
/* Sends the proof to every client that connects, until until_ms (CLOCK_BOOTTIME) or SIGTERM.
 * Precondition: the guard has no other work left. */
void guard_proof_serve(const struct guard_proof *proof, int fd, int64_t until_ms);

#endif
