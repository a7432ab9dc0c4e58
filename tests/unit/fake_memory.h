/* tests/unit/fake_memory.h: a machine with as much free memory as a test wants, and no control
 * groups. For programs that are linked with --wrap of fopen (tfe_fake_memory in CMakeLists.txt). */
#ifndef TFE_TESTS_UNIT_FAKE_MEMORY_H
#define TFE_TESTS_UNIT_FAKE_MEMORY_H

#include <stdint.h>

void fake_memory_set(uint64_t total_kib, uint64_t free_kib);

#endif
