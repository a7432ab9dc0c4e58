/* agent/gpu_wait.h: --gpu-memory-wait: delays the next start until the GPU memory of ended trainers
 * is free. A driver frees the memory of a killed process some time after the process is gone, and a
 * trainer that starts earlier fails for lack of memory. */
#ifndef TFE_AGENT_GPU_WAIT_H
#define TFE_AGENT_GPU_WAIT_H

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct gpu_wait;
struct option_table;

/* Options. Pointers are borrowed until gpu_wait_free(). */
struct gpu_wait_config {
    struct event_base *base;
    const struct option_table *options; /* nvidia-smi does not get the variables of these options */
    uint32_t limit_ms;                  /* longest wait; 0 to measure nothing and never wait */
    void (*over)(void *ctx); /* called from the event loop when gpu_wait_is_over becomes true */
    void *ctx;
};

/* Measures the memory in use before any trainer, by nvidia-smi. Without nvidia-smi or GPU that is
 * logged once, and no wait ever happens. */
struct gpu_wait *gpu_wait_new(const struct gpu_wait_config *config);
/* Accepts NULL. */
void gpu_wait_free(struct gpu_wait *g);

/* Begins a wait: all trainers have ended. It is over when at most 512 MiB more are in use, on all
 * GPUs together, than before any trainer, or after limit_ms, which is logged. */
void gpu_wait_begin(struct gpu_wait *g);

/* Returns false during the first measurement and during a wait. */
bool gpu_wait_is_over(const struct gpu_wait *g);

#endif
