/* tests/fuzz/fuzz_script_message.c: what training scripts say; any process of the user's may write
 * there. */
#include <string.h>

#include "agent/script_channel/script_message.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script_message before;
    struct script_message message;
    struct tfe_reason reason = {.text = ""};
    memset(&before, 0x5a, sizeof before);
    memcpy(&message, &before, sizeof message);
    int rc = script_message_read((const char *)data, size, &message, &reason);
    if (rc != 0) {
        MUST(memcmp(&message, &before, sizeof message) == 0);
        MUST(rc != TFE_EINVAL || reason.text[0]);
        return 0;
    }
    MUST(size <= SCRIPT_MESSAGE_MAX && message.type <= SCRIPT_REMARK);
    MUST(message.type != SCRIPT_HELLO || message.pid > 0);
    return 0;
}
