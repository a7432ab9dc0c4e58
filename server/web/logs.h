/* server/web/logs.h: the output of a job's trainers, as one response or as an event stream.
 *
 * A query that follows the logs blocks all others of its connection, so each uses its own
 * connection. */
#ifndef TFE_SERVER_WEB_LOGS_H
#define TFE_SERVER_WEB_LOGS_H

#include "server/web/request.h"

/* Number of lines at the start of a response for each stream of a rank: default and maximum. */
#define LOGS_LINES 100
#define LOGS_LINES_MAX 10000

/* Maximum size of a response that is not a stream. Further lines are left out, and "cut" is true.
 */
#define LOGS_BYTES_MAX (4u << 20)

void api_logs(struct request *r);

#endif
