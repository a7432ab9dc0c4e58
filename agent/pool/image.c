/* agent/pool/image.c: see image.h. */
#include "agent/pool/image.h"

#include <limits.h>
#include <string.h>

#include "agent/pool/scratch.h"
#include "agent/trainers/standby.h"
#include "common/net/log.h"

bool image_is_run(const struct agent_settings *settings, const struct msg_spec *spec)
{
    const bool is_run = spec->image && settings->runtime != RUNTIME_NONE;
    if (spec->image && !is_run) {
        log_warn("image_ignored", LOG_S("job", spec->name), LOG_S("image", spec->image));
    }
    return is_run;
}

/* Once, however often it is named; what is not absolute is below what is shared anyway. */
static void share(struct engine_wish *engine, const char *directory)
{
    size_t i = 0;
    while (engine->shared[i] && directory && strcmp(engine->shared[i], directory) != 0) {
        i++;
    }
    if (directory && directory[0] == '/') {
        engine->shared[i] = directory;
    }
}

static const char *checkpoints_of(const struct agent_settings *settings,
                                  const struct msg_spec *spec)
{
    static const char option[] = "checkpoint-dir=";
    const char *directory = settings->checkpoint_dir;
    for (size_t i = 0; i < spec->n_options; i++) {
        if (strncmp(spec->options[i], option, sizeof option - 1) == 0) {
            directory = spec->options[i] + sizeof option - 1;
        }
    }
    return directory;
}

int image_open(const struct agent_settings *settings, const struct msg_spec *spec,
               const struct scratch *scratch, const struct container_wish *wish,
               struct container **ret, struct tfe_why *why)
{
    char tools[PATH_MAX];
    struct container_wish whole = *wish;
    struct engine_wish engine = {.engine = runtimes[settings->runtime],
                                 .options = settings->runtime_options,
                                 .image = spec->image,
                                 .name = strrchr(scratch_base(scratch), '/') + 1,
                                 .scratch = scratch};
    share(&engine, scratch_base(scratch));
    share(&engine, spec->source_kind == SOURCE_PATH ? spec->source : NULL);
    share(&engine, checkpoints_of(settings, spec));
    if (standby_bootstrap(tools)) {
        *strrchr(tools, '/') = '\0';
        engine.tools = tools;
    }
    whole.engine = &engine;
    return container_new(&whole, ret, why);
}
