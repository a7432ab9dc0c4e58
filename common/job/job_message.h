/* common/job/job_message.h: a job file as what is said to the server. */
#ifndef TFE_COMMON_JOB_JOB_MESSAGE_H
#define TFE_COMMON_JOB_JOB_MESSAGE_H

#include <jansson.h>

#include "common/base/error.h"
#include "common/base/reason.h"
#include "common/message/msg.h"

/* Makes SPEC of a job's canonical form with a name, whose texts it borrows; its lists are the
 * caller's to end. TFE_EINVAL: what no server takes yet; why names the field. TFE_ENOMEM with why.
 */
int job_message_make(const json_t *job, struct msg_spec *ret,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* A zeroed one is allowed. */
void job_message_done(struct msg_spec *spec);

#endif
