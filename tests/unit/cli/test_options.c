/* tests/unit/cli/test_options.c: settings from defaults, environment and command line, by one
 * table. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli/options.h"
#include "common/message/msg.h"
#include "tests/unit/test_runner.h"

struct settings {
    bool json;
    bool no_standby;
    const char *job;
    const char *log_dir;
    uint32_t nproc;
    uint32_t port;
    uint32_t grace_ms;
    uint32_t fence_ms;
    uint32_t min;
    uint32_t max;
};

static int parse_range(void *settings, const char *value, struct tfe_reason *reason)
{
    struct settings *s = settings;
    char rest;
    if (sscanf(value, "%u:%u%c", &s->min, &s->max, &rest) != 2 || s->min > s->max) {
        reason_set(reason, "'%s' is not MIN:MAX", value);
        return TFE_EINVAL;
    }
    return 0;
}

#define AT(field) .offset = offsetof(struct settings, field)

static const struct option_spec specs[] = {
    {.name = "json", .letter = 'j', .kind = OPTION_FLAG, .help = "write JSON", AT(json)},
    {.name = "no-standby",
     .letter = 's',
     .kind = OPTION_FLAG,
     .help = "no standby",
     AT(no_standby)},
    {.name = "job",
     .kind = OPTION_TEXT,
     .argument = "NAME",
     .fallback = "default",
     .help = "name of the run",
     AT(job)},
    {.name = "rdzv-id", .alias_of = "job"},
    {.name = "log-dir",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .help = "logs go there",
     AT(log_dir)},
    {.name = "nproc-per-node",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .argument = "N",
     .fallback = "1",
     .help = "trainers per node",
     .min = 1,
     .max = 64,
     AT(nproc)},
    {.name = "port",
     .letter = 'p',
     .kind = OPTION_NUMBER,
     .argument = "PORT",
     .fallback = "5556",
     .help = "port",
     .max = 65535,
     AT(port)},
    {.name = "stop-grace",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .fallback = "5s",
     .help = "time to save",
     AT(grace_ms)},
    {.name = "fence",
     .kind = OPTION_DURATION,
     .argument = "TIME",
     .help = "secret",
     .min = 3000,
     .max = 300000,
     .hidden = true,
     AT(fence_ms)},
    {.name = "nnodes",
     .kind = OPTION_PARSE,
     .argument = "MIN:MAX",
     .fallback = "1:1",
     .help = "nodes",
     .parse = parse_range},
    {.name = "node-rank", .kind = OPTION_IGNORED, .argument = "VALUE"},
    {.name = "master-addr", .kind = OPTION_IGNORED, .argument = "VALUE"},
    {.name = "run-path", .kind = OPTION_IGNORED},
};

static const struct option_table stopping = {.program = "tfe-agent",
                                             .usage = "tfe-agent [OPTIONS] SCRIPT",
                                             .about = "Runs it.",
                                             .specs = specs,
                                             .n = sizeof specs / sizeof specs[0],
                                             .stop_at_operand = true};

/* Result of one parse. */
struct outcome {
    int rc;
    struct settings s;
    enum options_result result;
    int operand;
    char ignored[64];
    struct tfe_reason reason;
};

static struct outcome parse_with(const struct option_table *table, const char *const *args)
{
    static char copies[16][128];
    char *argv[17];
    int argc = 0;
    for (; args[argc]; argc++) {
        assert_true(argc < 16 && strlen(args[argc]) < sizeof copies[0]);
        argv[argc] = strcpy(copies[argc], args[argc]);
    }
    argv[argc] = NULL;
    struct outcome o = {.rc = 0};
    o.rc = options_parse(table, argc, argv, &o.s, &o.result, &o.operand, o.ignored,
                         sizeof o.ignored, &o.reason);
    return o;
}

#define PARSE(...) parse_with(&stopping, (const char *const[]){"tfe-agent", __VA_ARGS__, NULL})
#define PARSE_NOTHING() parse_with(&stopping, (const char *const[]){"tfe-agent", NULL})

static void assert_refused(struct outcome o, const char *reason)
{
    assert_int_equal(o.rc, TFE_EINVAL);
    assert_string_equal(o.reason.text, reason);
}

TEST(options, fallbacks_hold_where_nothing_is_said)
{
    struct outcome o = PARSE_NOTHING();
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.result, OPTIONS_RUN);
    assert_int_equal(o.operand, 1);
    assert_false(o.s.json);
    assert_string_equal(o.s.job, "default");
    assert_null(o.s.log_dir);
    assert_int_equal(o.s.nproc, 1);
    assert_int_equal(o.s.port, 5556);
    assert_int_equal(o.s.grace_ms, 5000);
    assert_int_equal(o.s.fence_ms, 0);
    assert_int_equal(o.s.max, 1);
    assert_string_equal(o.ignored, "");
}

TEST(options, every_kind_is_read_in_every_form)
{
    struct outcome o = PARSE("--json", "--job", "a", "--log-dir=/x=y", "-n", "4", "-p0",
                             "--stop-grace=250ms", "--fence", "3", "--nnodes=2:8", "-s");
    assert_int_equal(o.rc, 0);
    assert_true(o.s.json);
    assert_true(o.s.no_standby);
    assert_string_equal(o.s.job, "a");
    assert_string_equal(o.s.log_dir, "/x=y");
    assert_int_equal(o.s.nproc, 4);
    assert_int_equal(o.s.port, 0);
    assert_int_equal(o.s.grace_ms, 250);
    assert_int_equal(o.s.fence_ms, 3000);
    assert_int_equal(o.s.min, 2);
    assert_int_equal(o.s.max, 8);
    assert_int_equal(o.operand, 13);
}

TEST(options, flags_take_a_value_behind_an_equals_sign_only)
{
    assert_true(PARSE("--json=true").s.json);
    assert_true(PARSE("--json=1").s.json);
    assert_false(PARSE("--json", "--json=false").s.json);
    assert_false(PARSE("--json", "--json=0").s.json);
    assert_int_equal(PARSE("--json", "false").operand, 2);
    assert_true(PARSE("-js").s.no_standby);
    assert_int_equal(PARSE("-jn3").s.nproc, 3);
    assert_refused(PARSE("--json=maybe"), "--json: expected true or false, found 'maybe'");
    assert_refused(PARSE("--json="), "--json: expected true or false, found ''");
}

TEST(options, dash_and_underscore_are_the_same_in_names)
{
    assert_string_equal(PARSE("--log_dir=a").s.log_dir, "a");
    assert_int_equal(PARSE("--nproc_per-node=2").s.nproc, 2);
    assert_string_equal(PARSE("--node_rank=0").ignored, "--node-rank");
}

TEST(options, an_alias_is_the_option)
{
    assert_string_equal(PARSE("--rdzv-id=j").s.job, "j");
    assert_string_equal(PARSE("--rdzv_id", "j").s.job, "j");
    assert_string_equal(PARSE("--rdzv-id=j", "--job=k").s.job, "k");
    assert_string_equal(PARSE("--job=k", "--rdzv-id=j").s.job, "j");
}

TEST(options, ignored_ones_take_their_value_and_are_named_once)
{
    struct outcome o = PARSE("--node-rank", "0", "--master_addr=h", "--node_rank=1", "s.py");
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.ignored, "--node-rank, --master-addr");
    assert_int_equal(o.operand, 5);
}

TEST(options, what_follows_the_first_operand_is_the_scripts)
{
    struct outcome o = PARSE("--json", "s.py", "--job=x", "-h", "--nonsense");
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.result, OPTIONS_RUN);
    assert_int_equal(o.operand, 2);
    assert_string_equal(o.s.job, "default");
    assert_int_equal(PARSE("--", "--json").operand, 2);
    assert_false(PARSE("--", "--json").s.json);
    assert_int_equal(PARSE("--").operand, 2);
    assert_int_equal(PARSE("-", "--json").operand, 1);
}

TEST(options, operands_come_last_where_the_table_collects_them)
{
    struct option_table collecting = stopping;
    collecting.stop_at_operand = false;
    struct outcome o =
        parse_with(&collecting, (const char *const[]){"x", "--json", "a", "b", NULL});
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.operand, 2);
    o = parse_with(&collecting, (const char *const[]){"x", "a", "--", "--json", NULL});
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.operand, 1);
    assert_refused(parse_with(&collecting, (const char *const[]){"x", "a", "--json", NULL}),
                   "operand a before option --json (options must come first)");
}

TEST(options, help_and_version_work_whatever_else_is_said)
{
    assert_int_equal(PARSE("-h").result, OPTIONS_HELP);
    assert_int_equal(PARSE("--json", "--help", "--nonsense").result, OPTIONS_HELP);
    assert_int_equal(PARSE("--nnodes=nonsense", "-h").result, OPTIONS_HELP);
    assert_int_equal(PARSE("--version").result, OPTIONS_VERSION);
    assert_int_equal(setenv("TFE_NNODES", "nonsense", 1), 0);
    struct outcome o = PARSE("-h");
    assert_int_equal(unsetenv("TFE_NNODES"), 0);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.result, OPTIONS_HELP);
}

TEST(options, an_unknown_one_names_the_nearest)
{
    assert_refused(PARSE("--nnode=2"), "unknown option --nnode; did you mean --nnodes?");
    assert_refused(PARSE("--prot", "2"), "unknown option --prot; did you mean --port?");
    assert_refused(PARSE("--nporc_per_node"),
                   "unknown option --nporc_per_node; did you mean --nproc-per-node?");
    assert_refused(PARSE("--log"), "unknown option --log; did you mean --log-dir?");
    assert_refused(PARSE("--hepl"), "unknown option --hepl; did you mean --help?");
    assert_refused(PARSE("--checkpoint"),
                   "unknown option --checkpoint; `tfe-agent --help` lists them");
    assert_refused(PARSE("-x"), "unknown option -x; `tfe-agent --help` lists them");
    assert_refused(PARSE("--=x"), "unknown option --; `tfe-agent --help` lists them");
    assert_refused(PARSE("--help=x"), "--help takes no value");
}

TEST(options, a_missing_value_is_told)
{
    assert_refused(PARSE("--nnodes"), "--nnodes needs a value: --nnodes=MIN:MAX");
    assert_refused(PARSE("--log-dir", "--json"),
                   "--log-dir needs a value, and --json looks like an option; write --log-dir=DIR");
    assert_refused(PARSE("-n"), "-n needs a value: -nN");
    assert_string_equal(PARSE("--log-dir=--json").s.log_dir, "--json");
    assert_string_equal(PARSE("--log-dir", "-5").s.log_dir, "-5");
    assert_string_equal(PARSE("--log-dir=").s.log_dir, "");
}

TEST(options, ranges_include_their_ends)
{
    assert_int_equal(PARSE("-n1").s.nproc, 1);
    assert_int_equal(PARSE("-n64").s.nproc, 64);
    assert_refused(PARSE("-n0"), "-n: 0 is not between 1 and 64");
    assert_refused(PARSE("--nproc-per-node=65"), "--nproc-per-node: 65 is not between 1 and 64");
    assert_refused(PARSE("--port=99999999999999999999"),
                   "--port: 99999999999999999999 is not between 0 and 65535");
    assert_refused(PARSE("--port=-1"), "--port: expected a non-negative integer, found '-1'");
    assert_refused(PARSE("--port=0x10"), "--port: expected a non-negative integer, found '0x10'");
    assert_refused(PARSE("--port="), "--port: expected a non-negative integer, found ''");
    assert_int_equal(PARSE("--fence=5m").s.fence_ms, 300000);
    assert_refused(PARSE("--fence=2999ms"), "--fence: 2999ms is not between 3s and 5m");
    assert_refused(PARSE("--fence=301"), "--fence: 301 is not between 3s and 5m");
    assert_refused(PARSE("--fence=soon"),
                   "--fence: 'soon' is not a duration such as 500ms, 10s, 2m "
                   "or 1h (at most 30d)");
    assert_refused(PARSE("--nnodes=4:2"), "--nnodes: '4:2' is not MIN:MAX");
}

TEST(options, the_environment_stands_between_fallback_and_command_line)
{
    assert_int_equal(setenv("TFE_NPROC_PER_NODE", "7", 1), 0);
    assert_int_equal(setenv("TFE_RDZV_ID", "from-alias", 1), 0);
    assert_int_equal(setenv("TFE_JSON", "1", 1), 0);
    assert_int_equal(setenv("TFE_LOG_DIR", "", 1), 0);
    assert_int_equal(setenv("TFE_PORT", "tcp://10.0.0.1:5556", 1), 0);
    assert_int_equal(setenv("TFE_NODE_RANK", "3", 1), 0);
    assert_int_equal(setenv("TFE_NO_SUCH_THING", "3", 1), 0);
    struct outcome o = PARSE("--json=0");
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.s.nproc, 7);
    assert_string_equal(o.s.job, "from-alias");
    assert_false(o.s.json);
    assert_null(o.s.log_dir);
    assert_int_equal(o.s.port, 5556);
    assert_string_equal(o.ignored, "");
    assert_int_equal(setenv("TFE_JOB", "own", 1), 0);
    assert_string_equal(PARSE_NOTHING().s.job, "own");
    assert_string_equal(PARSE("--rdzv-id=cl").s.job, "cl");
    assert_int_equal(setenv("TFE_PORT", "x", 1), 0);
    assert_refused(PARSE_NOTHING(),
                   "environment variable TFE_PORT: expected a non-negative integer, found 'x'");
    const char *const names[] = {"TFE_NPROC_PER_NODE", "TFE_RDZV_ID", "TFE_JSON",
                                 "TFE_LOG_DIR",        "TFE_PORT",    "TFE_NODE_RANK",
                                 "TFE_NO_SUCH_THING",  "TFE_JOB"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(unsetenv(names[i]), 0);
    }
}

TEST(options, variables_of_the_table_are_known_by_name)
{
    assert_true(options_is_variable(&stopping, "TFE_NPROC_PER_NODE"));
    assert_true(options_is_variable(&stopping, "TFE_RDZV_ID"));
    assert_true(options_is_variable(&stopping, "TFE_FENCE"));
    assert_true(options_is_variable(&stopping, "TFE_NODE_RANK"));
    assert_false(options_is_variable(&stopping, "TFE_EPOCH"));
    assert_false(options_is_variable(&stopping, "TFE_JOB_"));
    assert_false(options_is_variable(&stopping, "JOB"));
    assert_false(options_is_variable(&stopping, "TFE_"));
}

TEST(options, help_has_a_line_for_each_that_is_not_hidden)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    options_print_help(&stopping, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text,
                        "Runs it.\n\nUsage: tfe-agent [OPTIONS] SCRIPT\n\nOptions:\n"
                        "  -j, --json              write JSON\n"
                        "  -s, --no-standby        no standby\n"
                        "      --job=NAME          name of the run (default default)\n"
                        "      --log-dir=DIR       logs go there\n"
                        "  -n, --nproc-per-node=N  trainers per node (default 1)\n"
                        "  -p, --port=PORT         port (default 5556)\n"
                        "      --stop-grace=TIME   time to save (default 5s)\n"
                        "      --nnodes=MIN:MAX    nodes (default 1:1)\n"
                        "  -h, --help              show this text and exit\n"
                        "      --version           show the version and exit\n"
                        "\nTIME is a number of seconds, or has a unit: 500ms, 10s, 2m, 1h, 1d.\n"
                        "\nEach option can also be set in the environment: --some-name is "
                        "TFE_SOME_NAME. The command line takes precedence.\n");
    free(text);
}

TEST(options, durations)
{
    static const struct {
        const char *text;
        uint32_t ms;
    } good[] = {{"10s", 10000},
                {"1.5", 1500},
                {"250ms", 250},
                {"2m", 120000},
                {"1h", 3600000},
                {"7d", 604800000},
                {"0.5", 500},
                {"0", 0},
                {".25s", 250},
                {"0.0001", 1},
                {"1.0000000000001s", 1000},
                {"007", 7000},
                {"2592000", 2592000000},
                {"30d", 2592000000},
                {"0.1ms", 1}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint32_t ms = 12345;
        assert_int_equal(options_duration(good[i].text, &ms), 0);
        assert_int_equal(ms, good[i].ms);
    }
    static const char *const bad[] = {"",    "s",   "-1", "+1",  "1.",      "1.s",
                                      ".",   "1 s", " 1", "1s ", "1e3",     "0x1",
                                      "inf", "1w",  "1S", "31d", "2592001", "99999999999999999999",
                                      "1,5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t ms = 12345;
        assert_int_equal(options_duration(bad[i], &ms), TFE_EINVAL);
        assert_int_equal(ms, 12345);
    }
}

TEST(options, the_longest_duration_is_the_longest)
{
    char text[32];
    uint32_t ms;
    (void)snprintf(text, sizeof text, "%llums", (unsigned long long)MSG_DURATION_MAX_MS);
    assert_int_equal(options_duration(text, &ms), 0);
    assert_int_equal(ms, MSG_DURATION_MAX_MS);
    /* Each part is within the limit, and the sum exceeds it. */
    (void)snprintf(text, sizeof text, "%llu.001s", (unsigned long long)MSG_DURATION_MAX_MS / 1000);
    assert_int_equal(options_duration(text, &ms), TFE_EINVAL);
}

TEST(options, numbers_of_nodes)
{
    static const struct {
        const char *text;
        uint32_t min, max;
    } good[] = {{"1", 1, 1}, {"2:4", 2, 4}, {"3:3", 3, 3}, {"1:65536", 1, 65536}};
    static const char *const bad[] = {"0",   "0:4", "2:0",  "4:2", "2:",    ":2",     "2:4x",
                                      "2x4", "",    "-1:2", "1:",  "2:4:6", "1:65537"};
    struct tfe_reason reason;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint32_t min = 0, max = 0;
        assert_int_equal(options_nodes(good[i].text, &min, &max, &reason), 0);
        assert_int_equal(min, good[i].min);
        assert_int_equal(max, good[i].max);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t min = 7, max = 7;
        assert_int_equal(options_nodes(bad[i], &min, &max, &reason), TFE_EINVAL);
        assert_int_equal(min, 7);
        assert_int_equal(max, 7);
    }
}
