/* server/web/logs.h: what a job's trainers print, as one answer or for as long as the page is
 * there.
 *
 * A question that goes on would hold up all others of its connection, so each has one of its own.
 */
#ifndef TFE_SERVER_WEB_LOGS_H
#define TFE_SERVER_WEB_LOGS_H

#include "server/web/request.h"

/* Lines that one answer begins with, of each stream of a rank. */
#define LOGS_LINES 100
#define LOGS_LINES_MAX 10000

/* Text of one answer that does not follow; all behind it is left out, and that is said. */
#define LOGS_BYTES_MAX (4u << 20)

void api_logs(struct request *r);

#endif
