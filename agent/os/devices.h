/* agent/os/devices.h: how many processors and GPUs trainers of this machine could have. */
#ifndef TFE_AGENT_OS_DEVICES_H
#define TFE_AGENT_OS_DEVICES_H

#include <stdint.h>

/* Those that this process may run on; at least 1. */
uint32_t devices_processors(void);
/* NVIDIA's, as CUDA_VISIBLE_DEVICES names them, else as the driver shows them. */
uint32_t devices_gpus(void);

#endif
