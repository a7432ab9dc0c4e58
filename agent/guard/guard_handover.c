/* agent/guard/guard_handover.c: hands the start of a trainer over to a standby, a process that has
 * already imported its modules. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/guard/guard_state.h"
#include "agent/guard/spawn_block.h"
#include "agent/os/proc.h"
#include "common/base/fd.h"

bool guard_can_renice(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    memset(data, 0, sizeof data);
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[CAP_TO_INDEX(CAP_SYS_NICE)].effective & CAP_TO_MASK(CAP_SYS_NICE));
}

/* Restores the default priorities of a thread. Priorities belong to threads, and imports may
 * have started some. */
static bool priority_restore(void *ctx, int thread)
{
    const struct guard *g = ctx;
    syscall(SYS_ioprio_set, GUARD_IOPRIO_WHO_PROCESS, thread, 0);
    if (g->may_renice) {
        setpriority(PRIO_PROCESS, (id_t)thread, getpriority(PRIO_PROCESS, 0));
    }
    return true;
}

/* Keeps a start for a retry until the standby confirms it. Without a free descriptor
 * there is no retry. */
static void pending_handover_store(struct pending_handover *handover,
                                   const struct guard_order *order, const int fds[GUARD_FDS])
{
    bool whole = true;
    handover->is_open = true;
    handover->order = *order;
    for (size_t i = 0; i < GUARD_FDS; i++) {
        handover->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        whole = whole && handover->fds[i] >= 0;
    }
    if (!whole) {
        pending_handover_close(handover);
    }
}

void standby_hand_over(struct guard *g, struct slot *to, struct slot *from,
                       const struct guard_order *order, const int fds[GUARD_FDS])
{
    if (from->is_standby && slot_has_process(from)) {
        standby_read_messages(from); /* a COLD message may be waiting */
    }
    if (!from->is_standby || !slot_has_process(from) || from->control < 0 || from->unsent_cold ||
        !guard_send(from->control, &order->block, sizeof order->block, fds)) {
        slot_spawn(g, to, order, fds);
        return;
    }
    *to = *from;
    to->is_standby = false;
    to->unsent_warm = false;
    to->unsent_pid = to->state == SLOT_RUNNING;
    pending_handover_store(&to->handover, order, fds);
    /* `to` now owns all resources of `from`. */
    from->control = -1;
    from->report = -1;
    from->group = GUARD_NO_GROUP;
    slot_reset(g, from);
    (void)proc_each_of(to->pid, "task", priority_restore, g);
}

void standby_read_messages(struct slot *slot)
{
    while (slot->control >= 0) {
        char message[1 + GUARD_TEXT_MAX];
        ssize_t n = recv(slot->control, message, sizeof message, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n < 0 && errno == ECONNRESET) {
            continue; /* the peer closed with unread data; its earlier messages follow */
        }
        if (n <= 0) {
            fd_close(&slot->control);
        } else if (message[0] == BOOTSTRAP_STARTED) {
            pending_handover_close(&slot->handover);
        } else if (message[0] == BOOTSTRAP_WARM || message[0] == BOOTSTRAP_COLD) {
            size_t length = (size_t)n - 1 < GUARD_TEXT_MAX - 1 ? (size_t)n - 1 : GUARD_TEXT_MAX - 1;
            memcpy(slot->reason, message + 1, length);
            slot->reason[length] = '\0';
            slot->unsent_cold = message[0] == BOOTSTRAP_COLD;
            slot->unsent_warm = !slot->unsent_cold && slot->is_standby;
        }
    }
}

bool standby_retry(struct guard *g, struct slot *slot)
{
    if (!slot->handover.is_open || g->killing || g->fence_passed || g->closed) {
        return false;
    }
    struct slot plain = *slot;
    slot->handover.is_open = false; /* `plain` owns the descriptors now */
    slot_reset(g, slot);
    slot_spawn(g, slot, &plain.handover.order, plain.handover.fds);
    slot->unsent_cold = plain.unsent_cold;
    memcpy(slot->reason, plain.reason, sizeof slot->reason);
    pending_handover_close(&plain.handover);
    return true;
}
