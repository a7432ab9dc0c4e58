/* common/base/limits.h: everything a peer can make us hold or wait for, and why that much
 * (design 3.2). */
#ifndef TFE_COMMON_BASE_LIMITS_H
#define TFE_COMMON_BASE_LIMITS_H

/* A round trip around the earth is 0.3 s; a machine that needs more than 5 s for one curve
 * operation would not renew a lease in time either. */
#define LIMIT_HANDSHAKE_MS 5000

/* Handshakes that one turn of the loop takes: some 0.15 ms of curve operations each, and the
 * renewals of everybody else come between two turns. */
#define LIMIT_HANDSHAKES_PER_TURN 16

/* Connections that have not shown a token yet, some 2 KB each. One more, and the oldest of the
 * source goes that has most of them; a whole first flight with a good mac1 goes through before
 * that.
 */
#define LIMIT_HALF_OPEN 4096

/* The same of one source (an IPv4 address, an IPv6 network of 64 bits): an honest client speaks as
 * soon as it is connected, so it needs its place for a round trip. */
#define LIMIT_HALF_OPEN_PER_ADDRESS 64

/* However many descriptors are in use: below that nobody could come in at all. */
#define LIMIT_HALF_OPEN_LEAST 4

/* An agent JOINs in its first frame, tfe-ctl asks at once; who shows a token and then says nothing
 * for so long is cut. */
#define LIMIT_SILENCE_MS 30000

/* Sessions of operators and their dashboards: each holds a descriptor that an agent may need. A key
 * or scope has at most a quarter of what the others leave (admission.h). */
#define LIMIT_QUERY_SESSIONS 256

/* Of these, and of the descriptors, the ones that only unscoped admins use: they come in whatever
 * dashboards, agents and admins of some jobs there are. */
#define LIMIT_ADMIN_SESSIONS 8

/* Orders of a key, at once, and then one each second: each is a row of the audit, which only grows.
 * An unscoped admin's are all taken. */
#define LIMIT_ORDERS 200
#define LIMIT_ORDER_MS 1000

/* So long an agent's own key is good: who has taken a machine's disk has it for a week at most. */
#define LIMIT_NODE_KEY_MS (INT64_C(7) * 24 * 3600 * 1000)

/* Own keys of agents of one address, at once, and then one each 5 s: each is a row of the audit,
 * which only grows. 10,000 behind one address have theirs in half a day; who waits asks again, and
 * goes on with its token meanwhile. */
#define LIMIT_ENROLMENTS 1024
#define LIMIT_ENROLMENT_MS 5000

/* Messages of a session but renewals: one each 50 ms, after so many at once. An agent says a few
 * for each epoch and one a second while it trains; who says more is refused and closed. */
#define LIMIT_MESSAGE_MS 50
#define LIMIT_MESSAGE_BURST 200

/* Who reads trainers' output through the server, at a time: each holds some 200 KB of it at most.
 * Of these, some are for unscoped admins alone. */
#define LIMIT_LOG_ASKS 128
#define LIMIT_ADMIN_LOG_ASKS 4

/* Nodes of whose trainers one of them reads: more lines than that nobody reads, nor are they there
 * at once. */
#define LIMIT_LOG_NODES 64

/* Of one reader, on the way from all of its nodes together, and from one of them at least: two
 * messages. */
#define LIMIT_LOG_WINDOW (128 * 1024)
#define LIMIT_LOG_WINDOW_LEAST (8 * 1024)

/* A node that says nothing for so long though it may is no longer waited for. */
#define LIMIT_LOG_SILENCE_MS 5000

/* Ends of trainers that failed, whose last lines are kept for when their machine is gone. */
#define LIMIT_LOG_TAILS 128

/* Bundles of jobs, all together: 64 of the largest, beside what else the disk of a small machine
 * holds; and what is left of that for the ledger, which is the server's own work. */
#define LIMIT_BUNDLES_BYTES (UINT64_C(4) << 30)
#define LIMIT_DISK_LEFT_BYTES (UINT64_C(128) << 20)

/* Number of bundles: two for each job that is remembered. They are looked through one by one. Of
 * both, one sixteenth is for unscoped admins alone. */
#define LIMIT_BUNDLES 2000u

/* Bundles that come at a time: each has some 200 KiB on its way. Some are for unscoped admins. */
#define LIMIT_UPLOADS 16u
#define LIMIT_ADMIN_UPLOADS 4u

/* Nodes that download one bundle at a time, and all bundles together: a stream has up to 450 KiB
 * of this process. Further nodes wait in order, and would each be as much slower otherwise. */
#define LIMIT_BUNDLE_STREAMS_EACH 8u
#define LIMIT_BUNDLE_STREAMS 32u

/* Bytes queued for a peer that does not read: some 2,000 renewal answers, or a few chunks of a
 * table. What is longer (tables, the answers to tfe-ctl) is produced as it is read. */
#define LIMIT_QUEUE_BYTES (256 * 1024)

/* Bytes that the kernel takes for a peer beyond what it has sent: some frames. Everything else
 * waits here, where it counts, or has not been produced yet. */
#define LIMIT_UNSENT_BYTES (64 * 1024)

/* After accept(2) failed for want of descriptors or memory: pause, then look again. */
#define LIMIT_ACCEPT_PAUSE_MS 100

/* ttl of a lease: below 3 s jitter and one lost packet end it, above 300 s a loss goes unseen for
 * longer than TensorFlow itself would need. */
#define LIMIT_TTL_MIN_MS 3000
#define LIMIT_TTL_MAX_MS 300000

#endif
