#!/usr/bin/env bash
# Usage: bench.sh NAME [OPTIONS…]
# Builds, runs the benchmark NAME (bench/NAME.py or bench/NAME/NAME.py), prints a table and writes
# build/bench/NAME.json. Each figure is shown beside its floor, measured in the same run. Common options:
#   --quick    a twentieth of the size, one round, timed goals relaxed by a factor of 2: checks that the benchmark works
#   --strict   exit 3 if a figure misses its goal; core, flood, handover, placement, scale, soak, web and wire always do
#              so
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
if [ "$name" = peers ]; then # 7 GB of packages, most of it for GPUs, that only this benchmark needs
    command -v etcd >/dev/null || logged "installing etcd" setup-etcd.log apt-get install -y --no-install-recommends etcd-server
    if ! "$root/.venv-peers/bin/python" -c 'import torch, numpy' 2>/dev/null; then
        /usr/bin/python3 -m venv "$root/.venv-peers"
        logged "installing PyTorch into .venv-peers" setup-peers.log "$root/.venv-peers/bin/python" -m pip install torch==2.9.1 numpy
    fi
fi
build_preset default all
mkdir -p "$build_dir/bench"
export TFE_BIN_DIR=$build_dir/default
supervised "$venv_python" "$program" --out "$build_dir/bench/$name.json" "$@"
