#!/bin/sh
# Usage: check-purity.sh CC NM CORE.a BASE.a STAMP
# Links a core library and tfe_base into one relocatable object and fails if it still needs anything outside
# the allow-list below: the simulator cannot replay a core that reads a clock, allocates or logs by itself.
# vsnprintf and gmtime_r depend only on their arguments here (C locale).
set -eu
cc=$1 nm=$2 core=$3 base=$4 stamp=$5
obj=$stamp.o
trap 'rm -f "$obj"' EXIT
"$cc" -r -nostdlib -Wl,--whole-archive "$core" -Wl,--no-whole-archive "$base" -o "$obj"
allowed='^(mem(cpy|move|set|cmp|chr)|str(len|nlen|cmp|ncmp|chr|rchr|spn|cspn|str)|__mem(cpy|move|set)_chk|vsnprintf|__vsnprintf_chk|gmtime_r|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_)$'
bad=$("$nm" -u "$obj" | awk '{print $NF}' | grep -Ev "$allowed" || true)
if [ -n "$bad" ]; then
    echo "$core is not pure, it needs:" $bad >&2
    exit 1
fi
touch "$stamp"
