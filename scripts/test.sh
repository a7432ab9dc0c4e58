#!/usr/bin/env bash
# Usage: test.sh [--gate | --full] [STAGE[,STAGE…]…]
# Installs what is missing, builds with warnings as errors, and tests. What people run while they work:
#   unit      unit tests, the simulator's scenarios and the rules of the house (ctest), as users get the programs
#   sim       the simulator: 20 s of random faults on all cores, with a seed of the commit's own
#   e2e       real processes (pytest), without the tests marked heavy
#   py        the package for training scripts, without TensorFlow (pytest)
#   train     TensorFlow trains, loses a machine and gets another
# --gate: what a change must pass. After the above:
#   install   cmake --install into a scratch prefix, and what must be in there
#   unit-asan unit with address and undefined-behaviour sanitizers
#   bugs      bugs that are planted in the cores: the simulator finds each, by the rule that is meant to
#   e2e-heavy the tests that e2e left out
#   e2e-asan  e2e with sanitizers
#   user      unit, and a part of e2e, as a user without any privilege (as sim, py and train, where root runs the gate)
#   explore   the simulator for a minute more
#   speed     what an event of the simulator costs, in instructions
#   crash     kill -9 on a server whose agents come and go; the trainers' logs judge
#   chaos     random faults on agents, trainers, standbys and the server; training must end exact
#   soak      a minute of agents that come and go: memory and descriptors
#   bench     core, placement, wire, scale, flood and handover at a twentieth of their size, judged loosely
#   churn     half a minute of spot machines: how much of it is useful
#   recovery  how long TensorFlow's training stands still at a loss, beside what it takes by hand
#   preempt   the same for a machine that is warned, and that no step is lost
#   tidy      the few fatal checks of clang-tidy over the product
#   tf        real TensorFlow, the demo among it (pytest)
# --full: the long versions of all of these (TFE_TEST_FULL=1), and
#   chaos-tf  as chaos, with TensorFlow's trainers: every sample of every pass once, whatever was killed
#   fuzz      each fuzzer for a minute
#   strict    the benchmarks at their whole size against their goals
#   coverage  each line of the cores that no fast test reaches is named, with its reason
# STAGE…: only these; with commas between them, at once, as the gate has those that wait beside one that works.
# What was skipped is named at the end.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

# With commas between them: at once, those that wait beside those that work. Nothing that measures is beside anything.
quick=(unit sim,py,train e2e)
gate=(install,unit-asan tidy,e2e-heavy,user bugs,e2e-asan explore,crash,speed,chaos,soak bench,churn recovery preempt tf)
long=(chaos-tf fuzz strict coverage)
all=("${quick[@]}" "${gate[@]}" "${long[@]}")
names=("${all[@]//,/ }")
chosen=()
default=("${quick[@]}")
full= gate_runs=
for argument in "$@"; do
    case $argument in
        --gate) default=("${quick[@]}" "${gate[@]}") gate_runs=1 ;;
        --full) default=("${all[@]}") full=1 gate_runs=1 ;;
        -h | --help) sed -n '2,${/^#/!q;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
        *)
            for stage in ${argument//,/ }; do
                case " ${names[*]} " in
                    *" $stage "*) ;;
                    *) say "test.sh: no stage $stage (there are: ${names[*]})" >&2; exit 2 ;;
                esac
            done
            chosen+=("$argument")
            ;;
    esac
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${default[@]}")
if [ -n "$full" ]; then
    export TFE_TEST_FULL=1
fi

export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
# What leaks has mostly left a pointer behind on a stack or in a register: with those it is seen in one run of many.
export LSAN_OPTIONS=use_stacks=0:use_registers=0

# What the stages' runners say goes to a file as well: what they skipped is named at the end.
said=$build_dir/said.log

nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs
    env PATH=/usr/local/bin:/usr/bin:/bin)
# As a user without any privilege, in a home that goes with it.
as_nobody() { # COMMAND…
    local home status=0
    home=$(mktemp -d)
    chown 65534:65534 "$home"
    supervised "${nobody[@]}" "HOME=$home" "TMPDIR=$home" "TFE_BIN_DIR=${TFE_BIN_DIR:-}" "$@" || status=$?
    rm -rf "$home"
    return "$status"
}
# What people run as themselves runs in root's gate without any privilege.
as_people() { # COMMAND…
    if [ -n "$gate_runs" ] && [ "$(id -u)" = 0 ]; then
        as_nobody "$@"
    else
        supervised "$@"
    fi
}

pytest=("$venv_python" -m pytest -p no:cacheprovider -ra --durations=5)
run_pytest() { # folder, options…
    local folder=$1
    shift
    supervised "${pytest[@]}" "$@" "$root/tests/$folder"
}
# Tests with processes wait three quarters of their time, so three for each processor; those of ctest that are long wait
# for grace times and disks with a tenth of one.
beside=(-n $(($(nproc) * 3)) --dist worksteal)
ctests=(-j $(($(nproc) + 2)) --output-on-failure --no-tests=error)
run_e2e() { # preset, options…
    local preset=$1
    shift
    TFE_BIN_DIR=$build_dir/$preset run_pytest e2e "${beside[@]}" "$@"
}
run_ctest() { # preset, options…
    local status=0
    supervised ctest --test-dir "$build_dir/$1" "${ctests[@]}" "${@:2}" || status=$?
    grep -h '^SKIPPED ' "$build_dir/$1/Testing/Temporary/LastTest.log" || true
    return "$status"
}
# What misses its goal (3) is tried once more, because whatever else runs on this machine is measured, too.
twice() { # COMMAND…
    local status=0
    "$@" || status=$?
    if [ "$status" = 3 ]; then
        say "SECOND TRY $*"
        status=0
        "$@" || status=$?
    fi
    return "$status"
}
quick_bench() { # name
    TFE_BIN_DIR=$build_dir/default supervised "$venv_python" "$root/bench/$1.py" --quick --out "$build_dir/bench/$1.json"
}
# A number of the commit's own: what is random differs from commit to commit, and can be repeated.
commit_seed() { # digits, without a repository
    local commit
    commit=$(git -C "$root" rev-parse HEAD 2>/dev/null) || commit=$2 # unpacked, not cloned
    printf '%d' $((16#${commit:0:$1}))
}

stage_install() {
    local prefix=$build_dir/prefix program page
    rm -rf "$prefix"
    supervised cmake --install "$build_dir/default" --prefix "$prefix" >"$build_dir/install.log" || return 1
    for program in tfe-rdzv tfe-agent tfe-ctl tfe-web; do
        "$prefix/bin/$program" --version || return 1
        page=$(find "$prefix/share/man" -name "$program.*" -size +0 -print -quit 2>/dev/null)
        [ -n "$page" ] || { say "no man page of $program was installed"; return 1; }
    done
    page=$(find "$prefix" -name digits.py -size +0 -print -quit)
    [ -n "$page" ] || { say "the examples were not installed"; return 1; }
    [ -s "$prefix/share/tfe/python/tfe/__init__.py" ] && [ -e "$prefix/share/tfe/python/tfe/py.typed" ] ||
        { say "the package for training scripts was not installed"; return 1; }
    say "installed: $(find "$prefix" -type f | wc -l) files"
}
stage_unit() { run_ctest default; }
stage_unit-asan() { run_ctest asan -LE house; } # sources have no sanitizer
stage_tidy() {
    supervised nice ctest --test-dir "$build_dir/default" -C tidy -L tidy -j "$(nproc)" --output-on-failure --no-tests=error
}
explorer=$build_dir/default/tests/sim/sim_explore
stage_sim() {
    as_people nice "$root/scripts/explore.sh" --seconds 20 --seed "$(commit_seed 10 1)" --explorer "$explorer"
}
# Its seeds begin far behind those of sim; it has what others leave of the processors.
stage_explore() {
    nested nice "$root/scripts/explore.sh" --seconds $((full ? 600 : 70)) --seed $(($(commit_seed 10 1) + 500000)) --explorer "$explorer"
}
stage_speed() {
    nested nice "$root/scripts/explore.sh" --speed --explorer "$explorer"
}
# Which rules notice a bug besides its own depends on the seed; --full takes others each time, five for each bug.
stage_bugs() {
    local seed=1 turns=1
    [ -z "$full" ] || seed=$(commit_seed 8 1) turns=5
    nested "$root/scripts/explore.sh" --bugs --seed "$seed" --turns "$turns"
}
stage_coverage() { nested "$root/scripts/coverage.sh"; }
stage_fuzz() { LSAN_OPTIONS='' nested "$root/scripts/fuzz.sh" --seconds 60; } # libFuzzer has much of its own on its stack
stage_e2e() { run_e2e default -m "not heavy"; }
stage_e2e-heavy() {
    # A cloud of AWS's kind on this machine, and AWS's own tool to ask it: only what scales the pool needs them.
    if [ -n "$full" ] && ! [ -x "$root/.venv-aws/bin/moto_server" ]; then
        /usr/bin/python3 -m venv "$root/.venv-aws"
        logged "installing moto and the AWS tools into .venv-aws" setup-aws.log \
            "$root/.venv-aws/bin/python" -m pip install 'moto[server]==5.1.22' awscli==1.46.3
    fi
    run_e2e default -m heavy
}
stage_e2e-asan() {
    if [ -n "$full" ]; then
        run_e2e asan
    else
        # What these are about is in Python, where no sanitizer looks.
        run_e2e asan -m "not heavy" --ignore-glob '*/test_bootstrap.py' --ignore-glob '*/test_docs.py' --ignore-glob '*/test_hooks.py'
    fi
}
stage_user() {
    if [ "$(id -u)" != 0 ]; then
        say "SKIPPED user: all of this ran as user $(id -un), who is not root"
        return 0
    fi
    local tests status=0
    tests=$(mktemp -d)
    # The descriptions of the tests alone: their logs go beside them, the programs stay where they are.
    (cd "$build_dir/default" && find . -name 'CTest*.cmake' -print0 | tar --null -cT - | tar -xC "$tests")
    chown -R 65534:65534 "$tests"
    # What asks the system for nothing is the same for any user.
    as_nobody ctest --test-dir "$tests" -LE house -E '^(sim|fuzz|unit_(base|wire|agent|rdzv))_' "${ctests[@]}" || status=1
    grep -h '^SKIPPED ' "$tests/Testing/Temporary/LastTest.log" || true
    rm -rf "$tests"
    TFE_BIN_DIR=$build_dir/default as_nobody "${pytest[@]}" "${beside[@]}" -m "not heavy" \
        "$root"/tests/e2e/test_{membership,standalone,supervision,standby}.py || status=1
    return "$status"
}
stage_crash() {
    nested "$root/scripts/crash.sh" --seconds 30 --seed "$(commit_seed 8 2)" --kills 8
}
chaos() { # seconds, options…
    nested "$root/scripts/chaos.sh" --seed "$(commit_seed 8 3)" --seconds "$@"
}
stage_chaos() { chaos $((full ? 900 : 30)); }
stage_chaos-tf() { chaos $((full ? 180 : 45)) --tensorflow; }
stage_py() { as_people "${pytest[@]}" "$root/tests/py"; }
# The load has no priority over others there.
bench_as_nobody() { # name
    TFE_BIN_DIR=$build_dir/default as_nobody "$venv_python" "$root/bench/$1.py" --quick --out /dev/null
}
stage_bench() {
    local name failed=0
    for name in core placement wire scale flood handover; do
        twice quick_bench "$name" || failed=1
    done
    [ "$(id -u)" != 0 ] || twice bench_as_nobody scale || failed=1
    return $failed
}
stage_churn() { twice quick_bench churn; }
stage_soak() { twice quick_bench soak; }
stage_strict() {
    local name failed=0
    for name in core placement wire scale web flood handover soak churn recovery preempt roles pool; do
        nested "$root/scripts/bench.sh" "$name" --strict || failed=1
    done
    return $failed
}
trained_bench() { # name, options…
    local name=$1
    shift
    TFE_BIN_DIR=$build_dir/default supervised "$venv_python" "$root/bench/$name.py" --loose "$@"
}
stage_recovery() {
    local options=()
    [ -n "$full" ] || options=(--rounds 1 --only peer_exit,agent_kill,join) # preempt has a planned leave
    twice trained_bench recovery "${options[@]}"
}
stage_preempt() {
    local options=()
    [ -n "$full" ] || options=(--rounds 1)
    twice trained_bench preempt "${options[@]}"
}
stage_train() { TFE_BIN_DIR=$build_dir/default as_people "${pytest[@]}" "$root/tests/tf/test_training.py"; }
# Two files at a time: importing TensorFlow is most of the work, and waiting for trainers a third of the time.
stage_tf() {
    local options=() status=0
    [ -n "$full" ] || options=(-m "not heavy")
    TFE_BIN_DIR=$build_dir/default run_pytest tf -n 2 --dist loadfile --deselect tf/test_training.py \
        --ignore "$root/tests/tf/test_roles_by_hand.py" "${options[@]}" || status=1
    # Its processes fork from one in which TensorFlow was imported, and nothing else.
    run_pytest tf/test_roles_by_hand.py || status=1
    return "$status"
}

# Several stages, each with its output in one piece. A subshell forgets the traps, and here each has children of its own.
at_once() { # stage…
    local stage pids=()
    for stage in "$@"; do
        (
            trap 'on_signal TERM 143' TERM
            "stage_$stage"
        ) >"$build_dir/stage-$stage.out" 2>&1 &
        pids+=($!)
    done
    for stage in "$@"; do
        wait "${pids[0]}" || { failed+=("$stage"); say "failed: $stage"; }
        pids=("${pids[@]:1}")
        cat "$build_dir/stage-$stage.out"
    done
}

# The lines that say what is wrong, else the last ones.
decisive() { # output of a stage
    grep -aE '^(VIOLATION|replay:|FAILED|SECOND TRY|beyond:|E   )|\*\*\*(Failed|Timeout|Exception)|\[  FAILED  \]|error: |ERROR: ' "$1" ||
        tail -n 15 "$1"
}

# Seconds of the processors that what has ended below this shell took: a stage that took fewer than its time waited.
count_work() {
    times >"$build_dir/times" # not in a subshell, which has times of its own
    worked=$(awk 'NR == 2 { gsub(/[ms]/, " "); printf "%d", $1 * 60 + $2 + $3 * 60 + $4 }' "$build_dir/times")
}
begin() {
    count_work
    began=$SECONDS had_worked=$worked
}
end() { # name
    count_work
    report+=("$1 $((SECONDS - began)) s ($((worked - had_worked)) s of a processor)")
}

report=()
failed=()
mkdir -p "$build_dir"
begin
needs=--no-venv
for stage in ${chosen[*]//,/ }; do
    case $stage in
        install | unit | unit-asan | tidy | sim | explore | speed | bugs | fuzz) ;;
        e2e-heavy) needs=--browser && break ;;
        *) needs= ;;
    esac
done
nested "$root/scripts/setup.sh" $needs
end setup

begin
build_preset default all -DTFE_WERROR=ON
case " ${chosen[*]} " in
    *-asan*) build_preset asan all -DTFE_WERROR=ON ;;
esac
end build

rm -f "$said"
for stage in "${chosen[@]}"; do
    begin
    printf '\n=== %s\n' "$stage"
    exec 3> >(tee -a "$said")
    tee=$!
    case $stage in
        *,*) at_once ${stage//,/ } >&3 3>&- ;;
        *) "stage_$stage" > >(tee "$build_dir/stage-$stage.out" >&3 3>&-) 3>&- || failed+=("$stage") ;;
    esac
    exec 3>&-
    wait "$tee" || true
    end "$stage"
done

printf '\n'
if grep -hE '^(SKIPPED|SECOND TRY|NOT JUDGED) |\*\*\*Skipped' "$said" | sort -u >"$said.skipped"; then
    say "Not judged, or only at the second try:"
    sed 's/^/  /' "$said.skipped"
fi
printf '%s\n' "${report[@]}"
if [ ${#failed[@]} -gt 0 ]; then
    say "FAILED: ${failed[*]} ($SECONDS s)"
    # Whoever sees no more than the end of this sees why.
    for stage in "${failed[@]}"; do
        say "--- $stage:"
        decisive "$build_dir/stage-$stage.out" | tail -n 15 | cut -c1-300
    done
    exit 1
fi
say "all stages passed ($SECONDS s)"
