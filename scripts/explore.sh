#!/usr/bin/env bash
# Usage: explore.sh --seconds N [--seed S] [--agents M] [--events K] [--roles] [--explorer PROGRAM]
#        explore.sh --bugs [--seed S [--turns T]]
#        explore.sh --speed [--explorer PROGRAM]
# Runs random faults against the real cores in virtual time, on all processors.
#   --seconds N   duration (60)
#   --seed S      the first seed; by default a random one, which is printed
#   --agents M    agents per seed (0: drawn from the seed); --events K: events per seed (50000)
#   --roles       jobs with ps, a chief and an evaluator
#   --explorer P  uses this program instead of a fresh build
#   --bugs        shows that the checks can fail: builds the explorer with each bug of tests/sim/bugs and checks that
#                 the rule named in its patch finds it within 1000 seeds, and that no other rule reports it. The first
#                 seed is the one in the patch (Seed:), else 1, so that every run has the same result.
#   --turns T     with --bugs --seed: T first seeds per bug (1), of which the median counts
#   --speed       the cost of an event, for three seeds of 100 agents, for 10,000 agents in jobs of 250, and in one job:
#                 events/s on one core, and instructions (counted by callgrind: independent of the load), which have a
#                 goal
# The last line is `explored events=… seeds=… violations=…`, or the table. Exit 1 on violations, if a bug is not found
# as expected, or if an event costs more instructions than its goal.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

seconds=60
seed=
explorer=
agents=0
events=50000
bugs=
turns=1
roles=
speed=
told=
while [ $# -gt 0 ]; do
    case $1 in
        --seconds | --seed | --agents | --events | --explorer | --turns)
            [ $# -gt 1 ] || { say "explore.sh: $1 needs a value" >&2; exit 2; }
            declare "${1#--}=$2"
            shift
            ;;
        --bugs) bugs=1 ;;
        --roles) roles=--roles ;;
        --speed) speed=1 ;;
        -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) say "explore.sh: unknown option $1" >&2; exit 2 ;;
    esac
    shift
done
[ -n "$seed$bugs" ] || seed=$(od -An -N5 -tu8 /dev/urandom | tr -d ' ')
cores=$(nproc)

if [ -z "$explorer$bugs" ]; then
    build_preset default sim_explore
    explorer=$build_dir/default/tests/sim/sim_explore
fi
logs=$(mktemp -d)
on_exit() {
    local left
    left=$(jobs -p)
    [ -z "$left" ] || kill $left 2>/dev/null || true
    [ -n "$told" ] || tell_violations
    rm -rf "$logs"
}
trap on_exit EXIT

# Prints the violations found, also by explorers that did not finish.
tell_violations() {
    told=1
    grep -hE '^(VIOLATION|replay)' "$logs"/[0-9]* 2>/dev/null | head -40 || true
}

# Each processor has its own range of seeds.
stretch=1000000

# Checks that an explorer has finished: 0 without violations, 1 with some; other statuses are crashes or sanitizer
# reports.
is_whole() { # its output, its exit status
    [ "$2" -le 1 ] && tail -n 1 "$1" | grep -q '^explored '
}

explore() {
    local worker pids=() totals status
    for ((worker = 0; worker < cores; worker++)); do
        "$explorer" --seed $((seed + worker * stretch)) --seconds "$seconds" --agents "$agents" \
            --events "$events" $roles >"$logs/$worker" 2>&1 &
        pids+=($!)
    done
    for worker in "${!pids[@]}"; do
        status=0
        wait "${pids[$worker]}" || status=$?
        if ! is_whole "$logs/$worker" "$status"; then
            say "the explorer on processor $worker broke off ($status):"
            tail -n 20 "$logs/$worker"
            printf 'explored events=0 seeds=1 violations=1\n' >>"$logs/$worker"
        fi
    done
    tell_violations
    totals=$(grep -h '^explored ' "$logs"/* | tr '=' ' ' |
        awk '{e += $3; s += $5; v += $7} END {printf "events=%d seeds=%d violations=%d", e, s, v}')
    say "seed $seed"
    say "explored $totals"
    [[ $totals == *violations=0 ]]
}

# Prints the number of seeds after which the expected rule has found the bug of a patch, and the rule; or, after the
# largest number of seeds, a sentence that says what is wrong.
bug_seeds=1000
look_for_bug() { # its patch, its program, the first seed, a log
    local rule also options status=0 broken each
    rule=$(sed -n 's/^Found-by: //p' "$1")
    also=$(sed -n 's/^Also: //p' "$1")
    options=$(sed -n 's/^Options: //p' "$1")
    [ -x "$2" ] || { say "$bug_seeds does not apply or compile"; return; }
    "$2" --seed "$3" --count "$bug_seeds" --events "$events" --first "$rule" --quiet $options >"$4" 2>&1 &
    trap "kill $! 2>/dev/null; exit 1" TERM
    wait $! || status=$?
    broken=$(sed -n 's/^broken \([a-z_0-9]*\) .*/\1/p' "$4" 2>/dev/null | tr '\n' ' ') || true
    if ! is_whole "$4" "$status"; then
        say "$bug_seeds the explorer broke off ($status)"
        return
    fi
    for each in $broken; do
        [[ " $rule $also " == *" $each "* ]] || {
            say "$bug_seeds found by $each as well ($(sed -n "s/^VIOLATION \(seed=[0-9]*\) .* $each: .*/\1/p" "$4" | head -n 1))"
            return
        }
    done
    [[ " $broken" == *" $rule "* ]] || { say "$bug_seeds not found by $rule (but by: ${broken:-none})"; return; }
    say "$(sed -n 's/^explored .* seeds=\([0-9]*\) .*/\1/p' "$4") $rule"
}

# Prints a line of the table: the median over the turns. The bug counts as wrong if the median turn has not found it, or
# if a rule that the patch does not name has reported it in any turn.
find_bug() { # name, its patch, its program
    local turn rule took verdict wrong first=$seed
    rule=$(sed -n 's/^Found-by: //p' "$2")
    [ -n "$first" ] || first=$(sed -n 's/^Seed: //p' "$2")
    for ((turn = 0; turn < turns; turn++)); do
        look_for_bug "$2" "$3" $((${first:-1} + turn * stretch)) "$logs/$1" >>"$logs/turns.$1"
    done
    read -r took verdict < <(sort -n "$logs/turns.$1" | sed -n $((turns / 2 + 1))p)
    wrong=$(grep -vE "^[0-9]+ ($rule\$|not found by)" "$logs/turns.$1" | head -n 1 | cut -d ' ' -f 2-) || true
    verdict=${wrong:-$verdict}
    [ "$verdict" != "$rule" ] || : >"$logs/right.$1"
    printf '%-24s %7d  %-15s %s\n' "$1" "$took" "$verdict" "$(sed -n 's/^What: //p' "$2")"
}

find_bugs() {
    local patch name wrong
    rm -f "$build_dir"/default/tests/sim/bugs/sim_bug_*[a-z] 2>/dev/null || true # a stale program proves nothing
    build_preset default "sim_bugs -- -k 0" || say "some bugs are not built"
    printf '%-24s %7s  %-15s %s\n' bug seeds 'found by' 'what goes wrong'
    for patch in "$root"/tests/sim/bugs/*.patch; do
        name=$(basename "$patch" .patch)
        while [ "$(jobs -pr | wc -l)" -ge "$cores" ]; do
            wait -n || true
        done
        find_bug "$name" "$patch" "$build_dir/default/tests/sim/bugs/sim_bug_$name" &
    done
    wait
    wrong=$(($(find "$root/tests/sim/bugs" -name '*.patch' | wc -l) - $(find "$logs" -name 'right.*' | wc -l)))
    say "seed ${seed:-of each patch, else 1}"
    say "bugs not found as they should be: $wrong"
    [ "$wrong" = 0 ]
}

# Each goal is 1.5 times the value at the time it was set, because a seed's faults change with the simulator.
measure_speed() {
    local run seed agents events few goal one rate each slow=0
    command -v valgrind >/dev/null || say "NOT JUDGED explore.sh --speed: instructions, without valgrind"
    printf '%8s %10s %10s %18s %8s\n' agents events events/s instructions/event goal
    for run in 1:100:1000000:30000:14000 2:100:1000000:30000:11000 3:100:1000000:30000:11000 \
        4:10000:1000000:50000:17000 5:10000:300000:30000:22000:--one-job; do
        IFS=: read -r seed agents events few goal one <<<"$run"
        "$explorer" --seed "$seed" --agents "$agents" --events "$events" $one >"$logs/speed" 2>&1 || slow=1
        rate=$(sed -n 's/.*events\/s=//p' "$logs/speed")
        each=-
        if command -v valgrind >/dev/null; then
            valgrind --tool=callgrind --callgrind-out-file=/dev/null \
                "$explorer" --seed "$seed" --agents "$agents" --events "$few" $one >"$logs/counted" 2>&1 || slow=1
            each=$(($(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$logs/counted") /
                $(sed -n 's/^explored events=\([0-9]*\).*/\1/p' "$logs/counted")))
            [ "$each" -le "$goal" ] || slow=1
        fi
        printf '%8d %10d %10d %18s %8d\n' "$agents" "$events" "$rate" "$each" "$goal"
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
