#!/usr/bin/env bash
# Usage: mutate.sh [--only PATTERN] [--sample N [--seed S]] [--jobs N] [--keep DIR] [--quick]
#        mutate.sh --list [--only PATTERN] [--sample N [--seed S]]
# How much do the fast tests see? Makes careless one-line changes to the product, one at a time, in scratch copies of the
# tree, and looks which test notices: those nearest to the room first, then all others of ctest, then the simulator's
# scenarios, then its explorer with fixed seeds, and, where there is a .venv, the end-to-end tests that the room names, but for
# the heavy ones. The changes are in tests/mutations, a file for each room; the first of them says how one is written.
#   --only P   those whose "room name file" contains this regular expression
#   --sample N of those N, of each room its share, chosen by --seed S (0)
#   --jobs N   so many at a time (as many as processors)
#   --keep DIR has its copies there and leaves them: the next run builds only what has changed
#   --quick    only the room's own tests and the scenarios: what survives there may still be killed by the rest
#   --list     builds nothing: says which there are, and sees that each still fits its file
# Ends with one line, mutated total=… killed=… survived=… equivalent=…; exit 1 when less than 95 % of what is not
# equivalent was killed, when a change does not fit or compile, or when one said to be equivalent was noticed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

only=
jobs=$(nproc)
list=
keep=
sample=
seed=0
while [ $# -gt 0 ]; do
    case $1 in
        --only | --sample | --seed | --jobs | --keep)
            [ $# -gt 1 ] || { say "mutate.sh: $1 needs a value" >&2; exit 2; }
            declare "${1#--}=$2"
            shift
            ;;
        --list) list=1 ;;
        --quick) export MUTATE_STAGES="near scenarios" ;;
        -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) say "mutate.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
[[ $jobs =~ ^[1-9][0-9]*$ ]] || { say "mutate.sh: --jobs needs a number from 1 on" >&2; exit 2; }
[[ $sample =~ ^([1-9][0-9]*)?$ && $seed =~ ^[0-9]+$ ]] || { say "mutate.sh: --sample and --seed need numbers" >&2; exit 2; }

mutate=$root/scripts/lib/mutate.py
if [ -n "$list" ]; then
    exec /usr/bin/python3 "$mutate" list "$only" "$sample" "$seed"
fi
if [ -n "$keep" ]; then
    mkdir -p "$keep"
    scratch=$(cd "$keep" && pwd -P)
else
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
fi
supervised /usr/bin/python3 "$mutate" run "$only" "$sample" "$seed" "$jobs" "$scratch"
