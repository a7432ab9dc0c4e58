#!/usr/bin/env bash
# Usage: explore.sh --seconds N [--seed S] [--agents M] [--events K] [--explorer PROGRAM]
#        explore.sh --bugs [--seconds N] [--seed S] [--explorer PROGRAM]
#        explore.sh --speed [--explorer PROGRAM]
# Random faults against the real cores in virtual time, on all processors.
#   --seconds N   for so long (60); with --bugs, so long for each bug and seed
#   --seed S      seeds from S on; without it fresh ones, printed
#   --agents M    so many each (0: as the seed says); --events K: so many per seed (50000)
#   --explorer P  this program instead of a fresh build
#   --bugs        proves that the checks can fail: for each deliberate bug the seconds until it is found
#   --speed       events/s on one core: three seeds of 100 agents, and a run of 10,000 to its end
# Ends with one line, explored events=… seeds=… violations=…, or the table; exit 1 on violations, when
# a bug is not found, or below 200,000 events/s with 100 agents.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

seconds=60
seed=
explorer=
agents=0
events=50000
bugs=
speed=
while [ $# -gt 0 ]; do
    case $1 in
        --seconds | --seed | --agents | --events | --explorer)
            [ $# -gt 1 ] || { say "explore.sh: $1 needs a value" >&2; exit 2; }
            declare "${1#--}=$2"
            shift
            ;;
        --bugs) bugs=1 ;;
        --speed) speed=1 ;;
        -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) say "explore.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
[ -n "$seed" ] || seed=$(od -An -N5 -tu8 /dev/urandom | tr -d ' ')
cores=$(nproc)

if [ -z "$explorer" ]; then
    build_preset default sim_explore
    explorer=$build_dir/default/tests/sim/sim_explore
fi
logs=$(mktemp -d)
on_exit() {
    local left
    left=$(jobs -p)
    [ -z "$left" ] || kill $left 2>/dev/null || true
    rm -rf "$logs"
}
trap on_exit EXIT

# Each processor has seeds of its own, far from the others'.
stretch=1000000

explore() {
    local worker pids=() totals
    for ((worker = 0; worker < cores; worker++)); do
        "$explorer" --seed $((seed + worker * stretch)) --seconds "$seconds" --agents "$agents" \
            --events "$events" >"$logs/$worker" 2>&1 &
        pids+=($!)
    done
    for worker in "${!pids[@]}"; do
        wait "${pids[$worker]}" || true
        if ! tail -n 1 "$logs/$worker" | grep -q '^explored '; then
            say "the explorer on processor $worker broke off:"
            tail -n 20 "$logs/$worker"
            printf 'explored events=0 seeds=1 violations=1\n' >>"$logs/$worker"
        fi
    done
    grep -hE '^(VIOLATION|replay)' "$logs"/* | head -40 || true
    totals=$(grep -h '^explored ' "$logs"/* | tr '=' ' ' |
        awk '{e += $3; s += $5; v += $7} END {printf "events=%d seeds=%d violations=%d", e, s, v}')
    say "seed $seed"
    say "explored $totals"
    [[ $totals == *violations=0 ]]
}

# Seconds until one bug is found from one seed on all processors; empty: not found.
find_bug() { # name, seed
    local worker pids=() began ended
    began=$(date +%s%N)
    for ((worker = 0; worker < cores; worker++)); do
        "$explorer" --seed $(($2 + worker * stretch)) --seconds "$seconds" --events "$events" \
            --bug "$1" --quiet >"$logs/$worker" 2>&1 &
        pids+=($!)
    done
    while :; do
        for worker in "${!pids[@]}"; do
            if ! kill -0 "${pids[$worker]}" 2>/dev/null; then
                if wait "${pids[$worker]}"; then
                    unset "pids[$worker]" # went through without finding it
                else
                    ended=$(date +%s%N)
                    kill "${pids[@]}" 2>/dev/null || true
                    wait "${pids[@]}" 2>/dev/null || true
                    awk -v ns=$((ended - began)) 'BEGIN {printf "%.1f\n", ns / 1e9}'
                    return
                fi
            fi
        done
        [ ${#pids[@]} -gt 0 ] || return 0
        sleep 0.05
    done
}

find_bugs() {
    local name what found missing=0 median i
    printf '%-20s %8s  %s\n' bug seconds 'what goes wrong (median of 3 seeds)'
    while IFS=$'\t' read -r name what; do
        found=()
        for i in 1 2 3; do
            found+=("$(find_bug "$name" $((seed + i * 7919)))")
        done
        median=$(printf '%s\n' "${found[@]}" | sed 's/^$/999999/' | sort -n | sed -n 2p)
        if [ "$median" = 999999 ]; then
            median=never
            missing=$((missing + 1))
        fi
        printf '%-20s %8s  %s\n' "$name" "$median" "$what"
    done < <("$explorer" --list-bugs)
    say "seed $seed"
    say "bugs not found: $missing"
    [ "$missing" = 0 ]
}

measure_speed() {
    local run seed agents events count rate slow=0
    printf '%8s %10s %10s\n' agents events events/s
    for run in 1:100:2000000 2:100:2000000 3:100:2000000 4:10000:10000000; do
        IFS=: read -r seed agents events <<<"$run"
        "$explorer" --seed "$seed" --agents "$agents" --events "$events" >"$logs/speed" 2>&1 || slow=1
        count=$(sed -n 's/^explored events=\([0-9]*\).*/\1/p' "$logs/speed")
        rate=$(sed -n 's/.*events\/s=//p' "$logs/speed")
        printf '%8d %10d %10d\n' "$agents" "$count" "$rate"
        [ "$agents" != 100 ] || [ "$rate" -ge 200000 ] || slow=1
    done
    [ "$slow" = 0 ]
}

if [ -n "$speed" ]; then
    measure_speed
elif [ -n "$bugs" ]; then
    find_bugs
else
    explore
fi
