/* common/net/limits.h: everything a peer can make us hold or wait for, and why that much
 * (SECURITY.md). */
#ifndef TFE_COMMON_NET_LIMITS_H
#define TFE_COMMON_NET_LIMITS_H

/* A round trip around the earth is 0.3 s; a machine that needs more than 5 s for one curve
 * operation would not renew a lease in time either. */
#define LIMIT_HANDSHAKE_MS 5000

/* Handshakes that one turn of the loop takes: some 0.15 ms of curve operations each, and the
 * renewals of everybody else come between two turns. */
#define LIMIT_HANDSHAKES_PER_TURN 16

/* Connections that have not shown a token yet. 4,096 × the bytes of a first flight stay below 8
 * MiB. Reached: accepting pauses, nobody is refused. */
#define LIMIT_HALF_OPEN 4096

/* The same from one address, so that one outsider does not use up the limit above. */
#define LIMIT_HALF_OPEN_PER_ADDRESS 64

/* An agent JOINs in its first frame, tfe-ctl asks at once; who shows a token and then says nothing
 * for so long is cut. */
#define LIMIT_SILENCE_MS 30000

/* Sessions of operators and their dashboards: each holds a descriptor that an agent may need. */
#define LIMIT_QUERY_SESSIONS 256

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
