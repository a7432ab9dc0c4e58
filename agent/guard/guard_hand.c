/* agent/guard/guard_hand.c: hands the start of a trainer over to a standby, a process that has
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

#include "agent/guard/guard_block.h"
#include "agent/guard/guard_state.h"
#include "agent/os/proc.h"
#include "common/base/fd.h"

bool hand_may_renice(void)
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
static void hand_keep(struct hand *hand, const struct guard_order *order, const int fds[GUARD_FDS])
{
    bool whole = true;
    hand->is_open = true;
    hand->order = *order;
    for (size_t i = 0; i < GUARD_FDS; i++) {
        hand->fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
        whole = whole && hand->fds[i] >= 0;
    }
    if (!whole) {
        hand_close(hand);
    }
}

void hand_over(struct guard *g, struct slot *to, struct slot *from, const struct guard_order *order,
               const int fds[GUARD_FDS])
{
    if (from->is_standby && slot_has_process(from)) {
        hand_listen(from); /* a COLD message may be waiting */
    }
    if (!from->is_standby || !slot_has_process(from) || from->control < 0 || from->owes_cold ||
        !guard_send(from->control, &order->words, sizeof order->words, fds)) {
        slot_spawn(g, to, order, fds);
        return;
    }
    *to = *from;
    to->is_standby = false;
    to->owes_warm = false;
    to->owes_pid = to->state == SLOT_RUNNING;
    hand_keep(&to->hand, order, fds);
    /* `to` now owns all resources of `from`. */
    from->control = -1;
    from->report = -1;
    from->group = GUARD_NO_GROUP;
    slot_reset(g, from);
    (void)proc_each_of(to->pid, "task", priority_restore, g);
}

void hand_listen(struct slot *slot)
{
    while (slot->control >= 0) {
        char words[1 + GUARD_TEXT_MAX];
        ssize_t n = recv(slot->control, words, sizeof words, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n < 0 && errno == ECONNRESET) {
            continue; /* the peer closed with unread data; its earlier messages follow */
        }
        if (n <= 0) {
            fd_drop(&slot->control);
        } else if (words[0] == GUARD_SAYS_TAKEN) {
            hand_close(&slot->hand);
        } else if (words[0] == GUARD_SAYS_WARM || words[0] == GUARD_SAYS_COLD) {
            size_t length = (size_t)n - 1 < GUARD_TEXT_MAX - 1 ? (size_t)n - 1 : GUARD_TEXT_MAX - 1;
            memcpy(slot->reason, words + 1, length);
            slot->reason[length] = '\0';
            slot->owes_cold = words[0] == GUARD_SAYS_COLD;
            slot->owes_warm = !slot->owes_cold && slot->is_standby;
        }
    }
}

bool hand_retry(struct guard *g, struct slot *slot)
{
    if (!slot->hand.is_open || g->killing || g->fence_passed || g->closed) {
        return false;
    }
    struct slot plain = *slot;
    slot->hand.is_open = false; /* `plain` owns the descriptors now */
    slot_reset(g, slot);
    slot_spawn(g, slot, &plain.hand.order, plain.hand.fds);
    slot->owes_cold = plain.owes_cold;
    memcpy(slot->reason, plain.reason, sizeof slot->reason);
    hand_close(&plain.hand);
    return true;
}
