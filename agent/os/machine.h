/* agent/os/machine.h: what this machine is and how it is doing, as people want to know of it.
 * All of it may take its time: it is asked on a thread of its own. */
#ifndef TFE_AGENT_OS_MACHINE_H
#define TFE_AGENT_OS_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MACHINE_TEXT_MAX 96

/* 0 or "": not known, or none. */
struct machine {
    uint32_t cores; /* that this process may use */
    uint64_t memory_mib;
    uint32_t gpus;
    char gpu[MACHINE_TEXT_MAX]; /* name of the first */
    uint64_t gpu_memory_mib;    /* of that */
};

/* GPUs by the driver's entries in /proc, their memory by nvidia-smi, which gets some seconds. */
void machine_read(struct machine *ret);

/* Of one minute, times 1000. */
uint32_t machine_load_milli(void);

/* Time in microseconds that all threads of these processes and of those that they have started ran
 * or were ready to run, and found no processor. Only what lives now is counted. */
uint64_t machine_busy_us(const pid_t *pids, size_t n);

/* Bytes that these processes have read and written so far, as /proc/PID/io counts them, without
 * their children. 0 where that cannot be read. */
uint64_t machine_io_bytes(const pid_t *pids, size_t n);

#endif
