/* tests/sim/sim_explore.c: random faults and workloads from seeds; exits 1 if an invariant is
 * violated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/check.h"
#include "tests/sim/explore.h"

static const char usage[] =
    "usage: sim_explore --seed N [--agents M] [--events K] [--until I] [--wire] [--one-job] "
    "[--roles]\n"
    "                   [--count SEEDS | --seconds S] [--seeds FILE] [--first RULE]\n"
    "                   [--verbose | --quiet]\n"
    "       sim_explore --rules\n"
    "  --agents 0    as many as the seed says (the default)\n"
    "  --roles       jobs have ps, a chief, an evaluator\n"
    "  --count C     seeds N … N+C-1; --seconds S: seeds from N on for so long\n"
    "  --seeds FILE  lines `SEED AGENTS EVENTS [wire] [roles] [# why]`: these instead\n"
    "  --first RULE  no further than to the first violation of this rule\n";

struct options {
    struct explore_options one;
    uint64_t count;
    double seconds;
    const char *seeds;
    bool rules;
    const char *first;
};

struct sum {
    uint64_t events;
    uint64_t seeds;
    uint64_t violations;
    uint64_t rounds;
    uint64_t last_hash;
    uint64_t broken[CHECK__COUNT];
};

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void add(struct sum *sum, const struct explore_options *one)
{
    struct explore_result result;
    explore_seed(one, &result);
    sum->events += result.events;
    sum->rounds += result.rounds;
    sum->seeds++;
    sum->violations += result.violation;
    sum->last_hash = result.hash;
    for (int i = 0; result.violation && i < CHECK__COUNT; i++) {
        sum->broken[i] += strcmp(result.rule, check_rule_name((enum check_rule)i)) == 0;
    }
}

static int run_file(const struct options *options, struct sum *sum)
{
    FILE *file = fopen(options->seeds, "r");
    if (!file) {
        perror(options->seeds);
        return 2;
    }
    char line[256];
    while (fgets(line, sizeof(line), file)) {
        unsigned long long seed;
        unsigned long long events;
        unsigned agents;
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        line[strcspn(line, "#")] = '\0';
        if (sscanf(line, "%llu %u %llu", &seed, &agents, &events) < 3) {
            fprintf(stderr, "%s: cannot read: %s", options->seeds, line);
            fclose(file);
            return 2;
        }
        struct explore_options one = options->one;
        one.seed = seed;
        one.agents = agents;
        one.events = events;
        one.wire = strstr(line, " wire") != NULL;
        one.roles = strstr(line, " roles") != NULL;
        add(sum, &one);
    }
    fclose(file);
    return 0;
}

static bool is_found(const char *rule, const struct sum *sum)
{
    for (int i = 0; rule && i < CHECK__COUNT; i++) {
        if (sum->broken[i] && strcmp(rule, check_rule_name((enum check_rule)i)) == 0) {
            return true;
        }
    }
    return false;
}

static void run_seeds(const struct options *options, struct sum *sum)
{
    double end = seconds_now() + options->seconds;
    struct explore_options one = options->one;
    do {
        /* Every eighth seed also uses sealed frames. */
        one.wire = options->one.wire ||
                   ((options->seconds > 0 || options->count > 1) && one.seed % 8 == 7);
        add(sum, &one);
        one.seed++;
        if (is_found(options->first, sum)) {
            return;
        }
    } while (options->seconds > 0 ? seconds_now() < end
                                  : one.seed < options->one.seed + options->count);
}

static int parse(int argc, char **argv, struct options *ret)
{
    *ret = (struct options){.one = {.events = 50000}, .count = 1};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--wire") == 0) {
            ret->one.wire = true;
        } else if (strcmp(name, "--one-job") == 0) {
            ret->one.one_job = true;
        } else if (strcmp(name, "--roles") == 0) {
            ret->one.roles = true;
        } else if (strcmp(name, "--verbose") == 0) {
            ret->one.verbose = true;
        } else if (strcmp(name, "--quiet") == 0) {
            ret->one.quiet = true;
        } else if (strcmp(name, "--rules") == 0) {
            ret->rules = true;
        } else if (i + 1 == argc) {
            return 2;
        } else if (strcmp(name, "--seed") == 0) {
            ret->one.seed = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(name, "--agents") == 0) {
            ret->one.agents = (uint32_t)strtoul(argv[++i], NULL, 10);
        } else if (strcmp(name, "--events") == 0) {
            ret->one.events = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(name, "--until") == 0) {
            ret->one.until = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(name, "--count") == 0) {
            ret->count = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(name, "--seconds") == 0) {
            ret->seconds = strtod(argv[++i], NULL);
        } else if (strcmp(name, "--first") == 0) {
            ret->first = argv[++i];
        } else if (strcmp(name, "--seeds") == 0) {
            ret->seeds = argv[++i];
        } else {
            return 2;
        }
    }
    return 0;
}

static void print_rules(void)
{
    for (int i = 0; i < CHECK__COUNT; i++) {
        printf("%-14s %s\n", check_rule_name((enum check_rule)i),
               check_rule_sentence((enum check_rule)i));
    }
}

int main(int argc, char **argv)
{
    struct options options;
    struct sum sum = {0};
    if (parse(argc, argv, &options)) {
        fputs(usage, stderr);
        return 2;
    }
    if (options.rules) {
        print_rules();
        return 0;
    }
    double began = seconds_now();
    if (options.seeds) {
        if (run_file(&options, &sum)) {
            return 2;
        }
    } else {
        run_seeds(&options, &sum);
    }
    double took = seconds_now() - began;
    if (sum.seeds == 1) {
        printf("trace hash %016llx\n", (unsigned long long)sum.last_hash);
    }
    printf("rounds=%llu seconds=%.1f events/s=%.0f\n", (unsigned long long)sum.rounds, took,
           took > 0 ? (double)sum.events / took : 0.0);
    for (int i = 0; i < CHECK__COUNT; i++) {
        if (sum.broken[i]) {
            printf("broken %s %llu\n", check_rule_name((enum check_rule)i),
                   (unsigned long long)sum.broken[i]);
        }
    }
    printf("explored events=%llu seeds=%llu violations=%llu\n", (unsigned long long)sum.events,
           (unsigned long long)sum.seeds, (unsigned long long)sum.violations);
    return sum.violations ? 1 : 0;
}
