#!/usr/bin/env bash
# Usage: demo.sh [--json FILE] [--keep]
# Installs missing packages, builds, and trains with three agents, of which one is killed, and a new one that joins
# later. Prints a URL to watch the run, and at the end the test accuracy and the cost of each epoch. --json FILE: also
# writes the result as JSON. --keep: keeps the page up until Ctrl-C.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

arguments=()
while [ $# -gt 0 ]; do
    case $1 in
        --json)
            [ $# -ge 2 ] || { say "demo.sh: --json needs a file" >&2; exit 2; }
            arguments+=(--json "$(realpath -m -- "$2")")
            shift
            ;;
        --json=*) arguments+=(--json "$(realpath -m -- "${1#--json=}")") ;;
        --keep) arguments+=(--keep) ;;
        -h | --help) sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) say "demo.sh: unknown argument $1 (usage: demo.sh [--json FILE] [--keep])" >&2; exit 2 ;;
    esac
    shift
done

for argument in "${arguments[@]}"; do
    case $argument in
        /*)
            if [ -d "$argument" ] || [ ! -w "$(dirname -- "$argument")" ]; then
                say "demo.sh: cannot write $argument" >&2
                exit 2
            fi
            ;;
    esac
done

began=$EPOCHREALTIME
nested "$root/scripts/setup.sh"
build_preset default "tfe-rdzv tfe-agent tfe-ctl tfe-web"
supervised "$venv_python" "$root/scripts/demo_run.py" --began "${began/,/.}" "${arguments[@]}"
