#!/usr/bin/env bash
# Usage: fuzz.sh [--seconds N] [--keep] [NAME…]
# Runs each fuzzer (tests/fuzz/fuzz_NAME.c), or the named ones, with libFuzzer and sanitizers on all processors.
# Installs clang if it is missing (as root).
#   --seconds N   duration for each fuzzer (60)
#   --keep        adds new findings to the corpus in the tree, minimised
# The last line is `fuzz targets=… seconds=… failed=…`; exit 1 if a fuzzer failed: its input is in build/fuzz.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

seconds=60
keep=
names=()
while [ $# -gt 0 ]; do
    case $1 in
        --seconds)
            [ $# -gt 1 ] || { say "fuzz.sh: $1 needs a value" >&2; exit 2; }
            seconds=$2
            shift
            ;;
        --keep) keep=1 ;;
        -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
        -*) say "fuzz.sh: unknown option $1" >&2; exit 2 ;;
        *)
            [ -f "$root/tests/fuzz/fuzz_$1.c" ] || { say "fuzz.sh: no target $1" >&2; exit 2; }
            names+=("$1")
            ;;
    esac
    shift
done
if [ ${#names[@]} = 0 ]; then
    for file in "$root"/tests/fuzz/fuzz_*.c; do
        name=${file##*/fuzz_}
        names+=("${name%.c}")
    done
fi

nested "$root/scripts/setup.sh"
has_libfuzzer() { echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer -x c - -o /dev/null; }
if ! has_libfuzzer >"$build_dir/fuzz-clang.log" 2>&1; then
    [ "$(id -u)" = 0 ] || die "clang with libFuzzer is missing; run: sudo apt-get install clang libclang-rt-dev"
    # The runtime must have clang's own version.
    logged "installing clang" setup-clang.log sh -c '
        apt-get install -y --no-install-recommends clang &&
        version=$(clang -dumpversion) && apt-get install -y --no-install-recommends "libclang-rt-${version%%.*}-dev"'
    has_libfuzzer >"$build_dir/fuzz-clang.log" 2>&1 || die "clang cannot link libFuzzer: $build_dir/fuzz-clang.log says why"
fi
build_preset fuzz fuzzers

# A corpus in the tree has one line of hexadecimal per input; libFuzzer wants one file per input.
unpack_corpus() { /usr/bin/python3 -c '
import hashlib, pathlib, sys
folder = pathlib.Path(sys.argv[2])
for line in open(sys.argv[1]):
    if not line.startswith("#") and line.strip():
        data = bytes.fromhex(line.strip())
        (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)' "$@"; }
pack_corpus() { /usr/bin/python3 -c '
import pathlib, sys
head = [line for line in open(sys.argv[1]) if line.startswith("#")]
inputs = sorted((p.read_bytes() for p in pathlib.Path(sys.argv[2]).iterdir()), key=lambda data: (len(data), data))
open(sys.argv[1], "w").writelines(head + [data.hex() + "\n" for data in inputs if data])' "$@"; }

# These features of the sanitizers take more time than most inputs do.
export ASAN_OPTIONS=max_malloc_fill_size=0:malloc_context_size=8:quarantine_size_mb=8${ASAN_OPTIONS:+:$ASAN_OPTIONS}

failed=0
for name in "${names[@]}"; do
    program=$build_dir/fuzz/tests/fuzz/fuzz_$name
    corpus=$build_dir/fuzz/corpus/$name
    hex=$root/tests/fuzz/corpus/$name.hex
    mkdir -p "$corpus"
    unpack_corpus "$hex" "$corpus"
    if ! supervised "$program" -max_total_time="$seconds" -max_len=8192 -timeout=5 -rss_limit_mb=2048 -fork="$(nproc)" -ignore_timeouts=0 -ignore_ooms=0 \
        -artifact_prefix="$build_dir/fuzz/$name-" "$corpus" >"$build_dir/fuzz/$name.log" 2>&1; then
        failed=$((failed + 1))
        tail -n 30 "$build_dir/fuzz/$name.log" >&2
    fi
    say "$name: $(ls "$corpus" | wc -l) inputs, $(grep -o "cov: [0-9]*" "$build_dir/fuzz/$name.log" | tail -n 1)"
    if [ -n "$keep" ]; then
        rm -rf "$corpus.least"
        mkdir "$corpus.least"
        supervised "$program" -merge=1 -max_len=1024 "$corpus.least" "$corpus" >>"$build_dir/fuzz/$name.log" 2>&1
        pack_corpus "$hex" "$corpus.least"
    fi
done
say "fuzz targets=${#names[@]} seconds=$seconds failed=$failed"
[ "$failed" = 0 ]
