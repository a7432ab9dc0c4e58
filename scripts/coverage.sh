#!/usr/bin/env bash
# Usage: coverage.sh
# Prints the line coverage of both cores by the fast tests. Builds the cores with gcov counters in build/coverage, runs
# their unit tests, the scenarios and a short exploration, and prints a row for each file, each line that no test
# reached, and the total. Exit 1 if the total is below 99.5 %.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

case ${1:-} in
    '') ;;
    -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) say "coverage.sh: unknown option $1" >&2; exit 2 ;;
esac
dir=$build_dir/coverage
tests='^(unit_(server_core|agent_core)_|sim_)'
build_preset coverage help
targets=$(cmake --build "$dir" --target help | sed -nE 's/^(unit_(server_core|agent_core)_[a-z0-9_]+|sim_run|sim_explore|sim_test_check): phony$/\1/p' |
    tr '\n' ' ')
build_preset coverage "$targets"
find "$dir" -name '*.gcda' -delete # counters of an earlier run
logged "running them" coverage-tests.log ctest --test-dir "$dir" -j "$(nproc)" -R "$tests" --output-on-failure
/usr/bin/python3 "$root/scripts/lib/coverage.py" "$dir" 99.5 server/core agent/core
