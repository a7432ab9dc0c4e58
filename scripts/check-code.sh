#!/bin/sh
# Usage: check-code.sh format
#        check-code.sh globals NM OBJECT_LIST
#        check-code.sh tidy BUILD_DIR
# Checks of the C code that the compiler does not make; ctest runs them (labels lint and tidy).
#   format   each file is formatted as by clang-format 14
#   globals  no product object has writable data except what is listed below with a reason
#   tidy     the fatal checks of .clang-tidy, by clang-tidy 14 (a minute; with TFE_TEST_FULL=1 several minutes)
set -eu
cd "$(dirname "$0")/.."

# Object (end of its path), symbol, reason for being writable.
allowed() {
    cat <<'END'
agent/guard/guard.c        removal_path     handed over before the fork, read by the guard alone
agent/guard/guard.c        title           where argv lies; a process has one
agent/guard/guard_loop.c   guard           the guard's only state, of fixed size: it never allocates
agent/os/child_process.c home      where commands of the machine's owner run, for the process's life
agent/os/trainer_user.c other       whom trainers run as, for the process's life
common/channel/channel.c       shared_scratch  buffers that the channels of one thread share
common/cli/log.c               log_state       level and format of the process's one log
common/channel/resolve.c       resolve_threads counts threads, which may outlive who asked
END
}

# Requires version 14: other versions format and diagnose differently.
find_tool() { # name
    for tool in "$1-14" "$1"; do
        if "$tool" --version 2>/dev/null | grep -q 'version 14\.'; then
            return
        fi
    done
    echo "$1 14 is not here; it is in the package $1-14 (scripts/setup.sh installs it)" >&2
    exit 1
}

sources() { # pattern, folder...
    pattern=$1
    shift
    find "$@" -name "$pattern" -not -path '*/build/*' | sort
}

case ${1:-} in
    format)
        find_tool clang-format
        sources '*.[ch]' agent bench common server tests |
            xargs -P "$(nproc)" -n 50 "$tool" --dry-run -Werror
        ;;
    globals)
        [ -s "$3" ] || { echo "no objects in $3" >&2; exit 1; }
        # Const tables of pointers are in .data.rel.ro, which only the loader writes.
        symbols=$(xargs "$2" --format=sysv --print-file-name <"$3")
        { allowed; echo; printf '%s\n' "$symbols"; } | awk -F'[ \t]*[|][ \t]*' '
            $0 == "" { rest = 1; next }
            !rest { split($0, word, " "); reason[word[1] ": " word[2]] = 1; next }
            $NF ~ /^(\.(data|bss|tdata|tbss)|\*COM\*)/ && $NF !~ /^\.data\.rel\.ro/ {
                object = symbol = $1
                sub(/.*:/, "", symbol)
                sub(/\.[0-9]+$/, "", symbol)
                if (symbol == "") next # a symbol of the section itself
                sub(/:[^:]*$/, "", object)
                sub(/\.o$/, "", object)
                sub(/CMakeFiles\/[^\/]*\.dir\/(\.\/)?/, "", object)
                while (object != "" && !((object ": " symbol) in reason))
                    if (!sub(/^[^\/]*\//, "", object)) object = ""
                if (object == "") { print $1 " can change: a global variable"; bad = 1 }
                else seen[object ": " symbol] = 1
            }
            END {
                for (name in reason)
                    if (!(name in seen)) { print name " is listed, and not there"; bad = 1 }
                exit bad
            }' >&2
        ;;
    tidy)
        find_tool clang-tidy
        # Removes gcc flags that this clang does not know; they do not change the meaning of the code.
        mkdir -p "$2/tidy"
        sed -E 's/ -f(zero-call-used-regs|trivial-auto-var-init)=[a-z-]+//g' "$2/compile_commands.json" \
            >"$2/tidy/compile_commands.json"
        # A sixth of clang's default limit of states per function takes a quarter of the time; few functions exceed it.
        most=40000
        [ -z "${TFE_TEST_FULL:-}" ] || most=225000
        sources '*.c' agent common server |
            xargs -P "$(nproc)" -n 4 "$tool" -p "$2/tidy" --quiet --extra-arg=-Xclang --extra-arg=-analyzer-config \
                --extra-arg=-Xclang --extra-arg=max-nodes=$most 2>/dev/null
        ;;
    *)
        sed -n '2,/^set/{/^#/!q;s/^# \{0,1\}//p}' "$0" >&2
        exit 2
        ;;
esac
