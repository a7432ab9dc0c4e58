/* common/base/assert.h: assertions on internal invariants, also in release builds. Input from a
 * peer never reaches an assertion. Pure. */
#ifndef TFE_COMMON_BASE_ASSERT_H
#define TFE_COMMON_BASE_ASSERT_H

/* Traps instead of calling abort(3), so that pure cores can use it; a core dump or debugger shows
 * the line. */
#define TFE_ASSERT(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            __builtin_trap();                                                                      \
        }                                                                                          \
    } while (0)

#endif
