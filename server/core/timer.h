/* server/core/timer.h: a timer of the core, and what it is for. Private to server/core. */
#ifndef TFE_SERVER_CORE_TIMER_H
#define TFE_SERVER_CORE_TIMER_H

#include "common/base/wheel.h"

enum timer_kind { TIMER_LEASE, TIMER_JOB, TIMER_PROBE, TIMER_HOLD };

struct core_timer {
    struct wheel_timer wheel;
    enum timer_kind kind;
};

#endif
