#!/usr/bin/env bash
# Usage: coverage.sh
# Which lines of both cores do the fast tests reach? Builds them with gcov's counters into build/coverage, runs their unit
# tests, the scenarios and a short exploration, and prints a row for each file, then each line that none has reached and
# tests/unreached.txt does not name, and one line with the sum. Exit 1 where there is such a line: write its story, or say
# there why none can reach it.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

case ${1:-} in
    '') ;;
    -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) say "coverage.sh: unknown option $1" >&2; exit 2 ;;
esac
dir=$build_dir/coverage
tests='^(unit_(rdzv|agent)_|sim_)'
build_preset coverage help
targets=$(cmake --build "$dir" --target help | sed -nE 's/^(unit_(rdzv|agent)_[a-z0-9_]+|sim_run|sim_explore|sim_test_check): phony$/\1/p' |
    grep -v '_calls$' | tr '\n' ' ')
build_preset coverage "$targets"
find "$dir" -name '*.gcda' -delete # of an earlier run
logged "running them" coverage-tests.log ctest --test-dir "$dir" -j "$(nproc)" -R "$tests" --output-on-failure
/usr/bin/python3 "$root/scripts/lib/coverage.py" "$dir" "$root/tests/unreached.txt" server/core agent/core
