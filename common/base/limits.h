/* common/base/limits.h: limits on what a peer can make the process hold or wait for, each with its
 * reason (design 3.2). */
#ifndef TFE_COMMON_BASE_LIMITS_H
#define TFE_COMMON_BASE_LIMITS_H

/* Time for a handshake. A round trip around the earth takes 0.3 s; a machine that needs more than 5
 * s for one curve operation could not renew a lease in time either. */
#define LIMIT_HANDSHAKE_MS 5000

/* Handshakes per iteration of the event loop. Each takes about 0.15 ms of curve operations;
 * renewals of all other sessions are handled between iterations. */
#define LIMIT_HANDSHAKES_PER_ITERATION 16

/* Unauthenticated connections, about 2 KB each. Beyond this limit the server closes the oldest
 * connection of the source that has most of them; a complete first handshake message with a valid
 * mac1 is processed before that. */
#define LIMIT_UNAUTHENTICATED 4096

/* Unauthenticated connections of one source (an IPv4 address or an IPv6 /64 network). A client
 * sends its first message as soon as it is connected, so it needs its slot for one round trip. */
#define LIMIT_UNAUTHENTICATED_PER_ADDRESS 64

/* Minimum of unauthenticated connections, however many descriptors are in use: below this no client
 * could connect at all. */
#define LIMIT_UNAUTHENTICATED_MIN 4

/* Time within which an authenticated client must send its first message. Agents send JOIN in their
 * first frame and tfe-ctl sends its request at once. */
#define LIMIT_SILENCE_MS 30000

/* Sessions of operators and dashboards. Each holds a descriptor that an agent may need. A key or
 * scope gets at most a quarter of the free ones (admission.h). */
#define LIMIT_QUERY_SESSIONS 256

/* Sessions and descriptors reserved for admins without scope, so that dashboards, agents and scoped
 * admins cannot lock them out. */
#define LIMIT_ADMIN_SESSIONS 8

/* Orders per key: a burst, then one per second. Each order adds a row to the audit log, which is
 * never truncated. Orders of admins without scope are not limited. */
#define LIMIT_ORDERS 200
#define LIMIT_ORDER_MS 1000

/* Lifetime of an agent's own key: a stolen disk is useful for a week at most. */
#define LIMIT_NODE_KEY_MS (INT64_C(7) * 24 * 3600 * 1000)

/* Keys issued to agents of one address: a burst, then one per 5 s. Each adds a row to the audit
 * log, which is never truncated. 10,000 agents behind one address have their keys after half a day;
 * until then they retry and use their token. */
#define LIMIT_ENROLLMENTS 1024
#define LIMIT_ENROLLMENT_MS 5000

/* Messages of a session except renewals: a burst, then one per 50 ms. An agent sends a few per
 * epoch and one per second while it trains. A session that exceeds the limit is refused and
 * closed. */
#define LIMIT_MESSAGE_MS 50
#define LIMIT_MESSAGE_BURST 200

/* Clients that read trainers' output through the server at a time, at about 200 KB each. Some slots
 * are reserved for admins without scope. */
#define LIMIT_LOG_REQUESTS 128
#define LIMIT_ADMIN_LOG_REQUESTS 4

/* Nodes whose output one client can read at a time, a limit on the state that the server holds per
 * client. */
#define LIMIT_LOG_NODES 64

/* Log credit of one client over all of its nodes, and its minimum per node: two messages. */
#define LIMIT_LOG_WINDOW (128 * 1024)
#define LIMIT_LOG_WINDOW_MIN (8 * 1024)

/* Time after which the server no longer waits for a node that has credit but sends no log lines. */
#define LIMIT_LOG_SILENCE_MS 5000

/* Failed trainers whose last lines the server stores, for the case that their machine is gone. */
#define LIMIT_LOG_TAILS 128

/* Bytes of all stored bundles (64 of the largest), and free disk space that bundles must leave for
 * the server's own ledger. */
#define LIMIT_BUNDLES_BYTES (UINT64_C(4) << 30)
#define LIMIT_DISK_LEFT_BYTES (UINT64_C(128) << 20)

/* Number of stored bundles: two per remembered job. Lookup is linear. One sixteenth of bytes and
 * number is reserved for admins without scope. */
#define LIMIT_BUNDLES 2000u

/* Concurrent uploads of bundles, at about 200 KiB each. Some slots are reserved for admins without
 * scope. */
#define LIMIT_UPLOADS 16u
#define LIMIT_ADMIN_UPLOADS 4u

/* Nodes that download one bundle, and all bundles, at a time. A stream occupies up to 450 KiB.
 * Further nodes wait in order, since more streams would only slow all of them down. */
#define LIMIT_BUNDLE_STREAMS_EACH 8u
#define LIMIT_BUNDLE_STREAMS 32u

/* Bytes queued for a peer that does not read: about 2,000 renewal answers, or a few chunks of a
 * table. Longer output (tables, responses to tfe-ctl) is produced as the peer reads. */
#define LIMIT_QUEUE_BYTES (256 * 1024)

/* Bytes that the kernel buffers for a peer beyond what it has sent, a few frames. All other output
 * is queued or not yet produced, where limits apply. */
#define LIMIT_UNSENT_BYTES (64 * 1024)

/* Pause before the next accept(2) after one failed for lack of descriptors or memory. */
#define LIMIT_ACCEPT_PAUSE_MS 100

/* Range of a lease's ttl. Below 3 s jitter and one lost packet end a lease; above 300 s a lost node
 * goes unnoticed for longer than TensorFlow itself would need. */
#define LIMIT_TTL_MIN_MS 3000
#define LIMIT_TTL_MAX_MS 300000

#endif
