/* common/base/bug.h: places where the simulator may switch on a deliberate bug, to prove that its
 * checks find it. Constant 0 in everything that is shipped. Pure. */
#ifndef TFE_COMMON_BASE_BUG_H
#define TFE_COMMON_BASE_BUG_H

#ifdef TFE_SIM_BUGS
#include TFE_SIM_BUGS /* tests/sim/bugs.h, which lists the names */
#else
/* Usage: if (late && !TFE_BUG(skip_fence_wait)) { … }. A name that is not in tests/sim/bugs.h does
 * not compile in the simulator. */
#define TFE_BUG(name) 0
#endif

#endif
