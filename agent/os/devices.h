/* agent/os/devices.h: counts the processors and GPUs that trainers on this machine can use. */
#ifndef TFE_AGENT_OS_DEVICES_H
#define TFE_AGENT_OS_DEVICES_H

#include <stdint.h>

/* Returns the number of processors that this process may run on, at least 1. */
uint32_t devices_processors(void);
/* Returns the number of NVIDIA GPUs: those in CUDA_VISIBLE_DEVICES if it is set, otherwise the
 * device files of the driver. */
uint32_t devices_gpus(void);

#endif
