/* agent/main.c: tfe-agent: options, what must be right before anybody is asked to join, then the
 * loop. */
#include <netdb.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/core/agent.h"
#include "agent/guard/guard.h"
#include "agent/reach/ports.h"
#include "agent/reach/proc.h"
#include "agent/runner.h"
#include "agent/settings.h"
#include "agent/standalone.h"
#include "agent/trainers/command.h"
#include "common/net/join.h"
#include "common/net/log.h"
#include "common/net/stdio.h"

static int fail(int code, const struct tfe_why *why)
{
    fprintf(stderr, "tfe-agent: %s\n", why->text);
    return code;
}

static void on_early_signal(int signo)
{
    _exit(128 + signo);
}

/* Until the loop takes these signals there is nobody to say goodbye to. As PID 1 of a container a
 * process without handlers does not even get them. */
static void signals_take(void)
{
    const struct sigaction leave = {.sa_handler = on_early_signal};
    sigaction(SIGTERM, &leave, NULL);
    sigaction(SIGINT, &leave, NULL);
}

/* --address must mean something, or peers wait an hour for this node. */
static int check_address(const struct agent_settings *settings, struct tfe_why *why)
{
    if (!settings->address_host[0]) {
        return 0;
    }
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(settings->address_host, NULL, NULL, &found);
    if (rc) {
        why_set(why, "--address: %s does not resolve: %s", settings->address_host,
                gai_strerror(rc));
        return TFE_EINVAL;
    }
    freeaddrinfo(found);
    return 0;
}

static int find_server(const struct agent_settings *settings, struct standalone *standalone,
                       struct join_info *ret, struct tfe_why *why)
{
    if (standalone) {
        int rc = standalone_start(standalone, why);
        return rc ? rc : standalone_find(standalone, ret, why);
    }
    struct join_wish wish = {
        .endpoint = settings->endpoint,
        .token = settings->token,
        .token_file = settings->token_file,
        .state_dir = settings->state_dir,
        .roles = {TOKEN_AGENT},
        .n_roles = 1,
    };
    return join_find(&wish, ret, why);
}

/* With the guard forked and the server known: ports, then the loop. */
static int run(const struct agent_settings *settings, const struct command *command,
               const struct guard_process *guard, struct standalone *standalone)
{
    struct tfe_why why;
    struct join_info info;
    int rc = find_server(settings, standalone, &info, &why);
    if (rc) {
        return fail(rc == TFE_EAUTH  ? AGENT_EXIT_UNAUTHORISED
                    : rc == TFE_ESYS ? AGENT_EXIT_FAILED
                                     : AGENT_EXIT_USAGE,
                    &why);
    }
    struct ports *ports;
    if (ports_new(settings->nproc, settings->address_port, &ports, &why)) {
        token_done(&info.token);
        return fail(AGENT_EXIT_FAILED, &why);
    }
    struct runner_wish wish = {.settings = settings,
                               .command = command,
                               .info = &info,
                               .guard = guard,
                               .ports = ports,
                               .standalone = standalone};
    int code = runner_run(&wish);
    ports_free(ports);
    token_done(&info.token);
    return code;
}

int main(int argc, char **argv)
{
    struct tfe_why why;
    struct agent_settings settings;
    enum options_result result;
    int operand;
    char ignored[256];
    signals_take();
    agent_settings_init(&settings);
    /* Whoever started us may have blocked SIGTERM: that is no wish to die without a word. */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (stdio_hold(&why)) {
        return AGENT_EXIT_FAILED;
    }
    if (options_parse(&agent_options, argc, argv, &settings, &result, &operand, ignored,
                      sizeof(ignored), &why)) {
        return fail(AGENT_EXIT_USAGE, &why);
    }
    if (result == OPTIONS_HELP) {
        options_print_help(&agent_options, stdout);
        return stdio_flushed(stdout) ? AGENT_EXIT_OK : AGENT_EXIT_FAILED;
    }
    if (result == OPTIONS_VERSION) {
        puts("tfe-agent " TFE_VERSION);
        return stdio_flushed(stdout) ? AGENT_EXIT_OK : AGENT_EXIT_FAILED;
    }
    log_init("tfe-agent", settings.log_level, settings.log_format);
    if (ignored[0]) {
        log_warn("options_ignored", LOG_S("options", ignored));
    }
    struct command command;
    int rc = command_new(argv + operand, argc - operand, settings.python, settings.module,
                         settings.no_python, &command, &why);
    if (rc) {
        return fail(rc == TFE_ENOENT ? AGENT_EXIT_NOT_FOUND : AGENT_EXIT_USAGE, &why);
    }
    int code = AGENT_EXIT_FAILED;
    struct guard_process guard;
    struct standalone *standalone = NULL;
    guard_title_area(argc, argv);
    if (check_address(&settings, &why) || notice_choice_places(&settings.notice, &why) ||
        (settings.standalone && standalone_check(&settings, &why))) {
        code = fail(AGENT_EXIT_USAGE, &why);
    } else if ((settings.standalone && standalone_new(&settings, &standalone, &why)) ||
               proc_become_subreaper() || guard_fork(&guard, &why)) {
        code = fail(AGENT_EXIT_FAILED, &why);
    } else {
        /* The token is in this process's memory from here on: no core dump of it. The guard was
         * forked before, trainers keep the user's limits. */
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGPIPE, SIG_IGN);
        code = sodium_init() < 0 ? AGENT_EXIT_FAILED : run(&settings, &command, &guard, standalone);
    }
    standalone_free(standalone);
    command_done(&command);
    return code;
}
