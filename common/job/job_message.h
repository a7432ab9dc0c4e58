/* common/job/job_message.h: converts a canonical job to SPEC, the message that submits it. */
#ifndef TFE_COMMON_JOB_JOB_MESSAGE_H
#define TFE_COMMON_JOB_JOB_MESSAGE_H

#include <jansson.h>

#include "common/base/error.h"
#include "common/message/msg.h"
#include "common/text/reason.h"

/* Makes SPEC of a canonical job with a name. Borrows the job's texts; free the lists with
 * job_message_done. Returns TFE_EINVAL with a reason that names the field, if no server accepts its
 * value yet, or TFE_ENOMEM with a reason. */
int job_message_make(const json_t *job, struct msg_spec *ret,
                     struct tfe_reason *reason) TFE_MUST_CHECK;

/* Frees the lists. A zeroed SPEC is allowed. */
void job_message_done(struct msg_spec *spec);

#endif
