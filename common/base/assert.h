/* common/base/assert.h: what must hold inside, in release too. No peer's input reaches one. Pure.
 */
#ifndef TFE_COMMON_BASE_ASSERT_H
#define TFE_COMMON_BASE_ASSERT_H

/* A trap instead of abort(3): nothing of libc, so that cores may use it; the core dump or the
 * debugger shows the place. */
#define TFE_ASSERT(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            __builtin_trap();                                                                      \
        }                                                                                          \
    } while (0)

#endif
