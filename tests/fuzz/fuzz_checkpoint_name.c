/* tests/fuzz/fuzz_checkpoint_name.c: names of files and the text of TensorFlow's state file, which
 * a dying process may leave in any state. */
#include <string.h>

#include "agent/script_channel/checkpoint_name.h"
#include "tests/fuzz/fuzz.h"

static void look_at(const char *name)
{
    uint64_t step;
    (void)checkpoint_name_step(name, &step);
    (void)checkpoint_name_epoch(name);
    MUST(checkpoint_name_stem(name) <= strlen(name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[CHECKPOINT_NAME_MAX + 1];
    if (checkpoint_state_newest((const char *)data, size, name)) {
        MUST(name[0] && strlen(name) <= CHECKPOINT_NAME_MAX && !strchr(name, '/'));
        look_at(name);
    }
    size_t n = size < CHECKPOINT_NAME_MAX ? size : CHECKPOINT_NAME_MAX;
    if (n > 0) {
        memcpy(name, data, n);
    }
    name[n] = '\0';
    look_at(name);
    return 0;
}
