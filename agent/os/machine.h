/* agent/os/machine.h: hardware and load of this machine. Except for machine_processors and
 * machine_gpus the functions may block, so they are called on a separate thread. */
#ifndef TFE_AGENT_OS_MACHINE_H
#define TFE_AGENT_OS_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MACHINE_TEXT_MAX 96

/* Hardware of a machine; 0 or "" if unknown or absent. */
struct machine {
    uint32_t cores; /* processors that this process may use */
    uint64_t memory_mib;
    uint32_t gpus;
    char gpu[MACHINE_TEXT_MAX]; /* name of the first GPU */
    uint64_t gpu_memory_mib;    /* memory of the first GPU */
};

/* Returns the number of processors that this process may run on, at least 1. */
uint32_t machine_processors(void);
/* Returns the number of NVIDIA GPUs: those in CUDA_VISIBLE_DEVICES if it is set, otherwise the
 * device files of the driver. */
uint32_t machine_gpus(void);

/* Reads the hardware: the GPUs from the driver's entries in /proc, their memory from nvidia-smi,
 * with a timeout of 10 s. */
void machine_read(struct machine *ret);

/* Returns the 1-minute load average, times 1000. */
uint32_t machine_load_milli(void);

/* Returns the time in microseconds that all threads of the processes and their descendants have
 * run or waited for a processor. Only live processes are counted. */
uint64_t machine_busy_us(const pid_t *pids, size_t n);

/* Returns the bytes that the processes have read and written according to /proc/PID/io, without
 * their children. An unreadable file counts as 0. */
uint64_t machine_io_bytes(const pid_t *pids, size_t n);

#endif
