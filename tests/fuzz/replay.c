/* tests/fuzz/replay.c: drives a target without libFuzzer. Usage: fuzz_NAME CORPUS.hex [MUTATIONS]
 * Every line of the corpus is an input in hexadecimal, # begins a comment. The mutations are the
 * same in each run. An input that ends the program is printed. */
#include <ctype.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_MAX 16384
#define INPUTS_MAX 1024

struct input {
    uint8_t *bytes;
    size_t n;
};

static struct input corpus[INPUTS_MAX];
static size_t corpus_n;
static uint8_t now[INPUT_MAX];
static size_t now_n;

/* Set by the sanitizers' runtime where there is one. */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void print_input(void)
{
    static const char digits[] = "0123456789abcdef";
    static char line[2 * INPUT_MAX + 1];
    for (size_t i = 0; i < now_n; i++) {
        line[2 * i] = digits[now[i] >> 4];
        line[2 * i + 1] = digits[now[i] & 15];
    }
    line[2 * now_n] = '\n';
    (void)!write(STDERR_FILENO, line, 2 * now_n + 1);
}

static void on_signal(int number)
{
    print_input();
    signal(number, SIG_DFL);
    raise(number);
}

static int nibble(int c)
{
    return isdigit(c) ? c - '0' : isxdigit(c) ? tolower(c) - 'a' + 10 : -1;
}

static void read_corpus(const char *path)
{
    static char line[2 * INPUT_MAX + 2];
    FILE *file = fopen(path, "re");
    if (!file) {
        perror(path);
        exit(2);
    }
    while (fgets(line, sizeof line, file)) {
        size_t n = 0;
        while (nibble(line[2 * n]) >= 0 && nibble(line[2 * n + 1]) >= 0) {
            now[n] = (uint8_t)(nibble(line[2 * n]) << 4 | nibble(line[2 * n + 1]));
            n++;
        }
        if (line[0] == '#') {
            continue;
        }
        if (corpus_n == INPUTS_MAX || n == 0 || line[2 * n] != '\n') {
            (void)fprintf(stderr, "%s: line %zu is no input\n", path, corpus_n + 1);
            exit(2);
        }
        corpus[corpus_n].bytes = malloc(n);
        MUST(corpus[corpus_n].bytes);
        memcpy(corpus[corpus_n].bytes, now, n);
        corpus[corpus_n++].n = n;
    }
    (void)fclose(file);
}

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled"
 */
static size_t draw(size_t below)
{
    static uint64_t x = 1;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    return (size_t)((x * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % below;
}

/* Makes room for n bytes at `at`, or takes them away. */
static void insert(size_t at, size_t n)
{
    if (now_n + n <= INPUT_MAX) {
        memmove(now + at + n, now + at, now_n - at);
        now_n += n;
    }
}

static void erase(size_t at, size_t n)
{
    n = n < now_n - at ? n : now_n - at;
    memmove(now + at, now + at + n, now_n - at - n);
    now_n -= n;
}

static void mutate(void)
{
    static const uint8_t odd[] = {0, 1, 0x7f, 0x80, 0xff, '\n', '"', '\\'};
    const struct input *other = &corpus[draw(corpus_n)];
    size_t at = draw(now_n + 1);
    switch (draw(7)) {
    case 0:
        insert(at, 1 + draw(8));
        break;
    case 1:
        erase(at, 1 + draw(16));
        break;
    case 2: { /* a piece of another one over what is there */
        size_t from = draw(other->n);
        size_t n = 1 + draw(other->n - from);
        memcpy(now + at, other->bytes + from, n < now_n - at ? n : now_n - at);
        break;
    }
    case 3: { /* ... or between */
        size_t from = draw(other->n);
        size_t n = 1 + draw(other->n - from);
        if (now_n + n <= INPUT_MAX) {
            insert(at, n);
            memcpy(now + at, other->bytes + from, n);
        }
        break;
    }
    case 4:
        if (at < now_n) {
            now[at] = odd[draw(sizeof odd)];
        }
        break;
    case 5:
        if (at < now_n) {
            now[at] = (uint8_t)(now[at] + draw(5) - 2);
        }
        break;
    default:
        if (at < now_n) {
            now[at] ^= (uint8_t)(1u << draw(8));
        }
    }
}

static void run(void)
{
    /* From the heap, so that a sanitizer sees what is read behind it. */
    uint8_t *copy = malloc(now_n ? now_n : 1);
    MUST(copy);
    memcpy(copy, now, now_n);
    (void)LLVMFuzzerTestOneInput(copy, now_n);
    free(copy);
}

static void begin_with(const struct input *input)
{
    memcpy(now, input->bytes, input->n);
    now_n = input->n;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s CORPUS.hex [MUTATIONS]\n", argv[0]);
        return 2;
    }
    signal(SIGABRT, on_signal);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(print_input);
    } else {
        signal(SIGSEGV, on_signal);
    }
    read_corpus(argv[1]);
    if (corpus_n == 0) {
        (void)fprintf(stderr, "%s: no inputs\n", argv[1]);
        return 2;
    }
    now_n = 0;
    run();
    for (size_t i = 0; i < corpus_n; i++) {
        begin_with(&corpus[i]);
        run();
    }
    size_t mutations = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    for (size_t i = 0; i < mutations; i++) {
        begin_with(&corpus[draw(corpus_n)]);
        for (size_t k = 1 + draw(6); k > 0; k--) {
            mutate();
        }
        run();
    }
    (void)printf("%zu inputs, %zu mutations\n", corpus_n, mutations);
    for (size_t i = 0; i < corpus_n; i++) {
        free(corpus[i].bytes);
    }
    return 0;
}
