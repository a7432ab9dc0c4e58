#!/usr/bin/env bash
# Usage: mutate.sh [RANGE] [--sample N] [--seed S] [--jobs N] [--keep DIR]
# Measures how many careless one-line changes the fast tests detect. Makes one change after another in scratch copies of
# the tree (an operator swapped, a constant off by one, a condition negated, a statement deleted), builds the test
# programs that contain the changed file, and runs them, the smallest program first, until a test fails.
#   RANGE      changes the functions that these commits touch (main..HEAD); without it, the functions of both cores, the
#              wire, the store, the guard, placement and authentication
#   --sample N tries N changes chosen at random (200 without RANGE, all of them with one)
#   --seed S   chooses the sample (0); the same tree and seed give the same sample
#   --jobs N   tries N changes at a time (1), each in its own copy
#   --keep DIR keeps the copies in DIR; the next run with DIR builds only what differs
# Prints a line per change, the diff of each change that no test detected, and last `mutated total=… killed=…
# survived=…`. Changes that do not compile, or that compile to the same program, are replaced by others. Exit 1 below 95
# % killed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

range=
sample=
seed=0
jobs=1
keep=
while [ $# -gt 0 ]; do
    case $1 in
        --sample | --seed | --jobs | --keep)
            [ $# -gt 1 ] || { say "mutate.sh: $1 needs a value" >&2; exit 2; }
            declare "${1#--}=$2"
            shift
            ;;
        -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
        -*) say "mutate.sh: unknown option $1" >&2; exit 2 ;;
        *) range=$1 ;;
    esac
    shift
done
[[ $jobs =~ ^[1-9][0-9]*$ ]] || { say "mutate.sh: --jobs needs a number from 1 on" >&2; exit 2; }
[[ $sample =~ ^([1-9][0-9]*)?$ && $seed =~ ^[0-9]+$ ]] || { say "mutate.sh: --sample and --seed need numbers" >&2; exit 2; }

if [ -n "$keep" ]; then
    mkdir -p "$keep"
    scratch=$(cd "$keep" && pwd -P)
else
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
fi
supervised nice -n 10 /usr/bin/python3 "$root/scripts/lib/mutate.py" "$range" "$sample" "$seed" "$jobs" "$scratch"
