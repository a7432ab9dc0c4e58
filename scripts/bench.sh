#!/usr/bin/env bash
# Usage: bench.sh NAME [OPTIONS…]
# Builds, runs the benchmark NAME (bench/NAME.py or bench/NAME/NAME.py), prints a table and writes
# build/bench/NAME.json. Every figure stands beside its floor, measured in the same run. Common options:
#   --quick    a twentieth of the size, one turn, what is timed judged by a factor of 2: whether it still works
#   --strict   exit 1 where a figure misses its goal; core, handover, scale, soak and wire do so in any case
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

name=${1:-}
case $name in
    -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    '' | */* | .*) die "which one? see bench.sh --help" ;;
esac
shift
program=
for candidate in "$root/bench/$name.py" "$root/bench/$name/$name.py"; do
    if [ -f "$candidate" ]; then
        program=$candidate
    fi
done
[ -n "$program" ] || die "no benchmark $name"

nested "$root/scripts/setup.sh"
build_preset default all
mkdir -p "$build_dir/bench"
export TFE_BIN_DIR=$build_dir/default
supervised "$venv_python" "$program" --out "$build_dir/bench/$name.json" "$@"
