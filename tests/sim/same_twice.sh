#!/bin/sh
# Usage: same_twice.sh SIM_EXPLORE
# The same seed gives the same trace hash, another seed another one; sealed frames too.
set -eu
hash() { "$1" --seed "$2" --agents "$3" --events 30000 $4 | sed -n 's/^trace hash //p'; }
for how in '' --wire; do
    one=$(hash "$1" 42 12 "$how")
    two=$(hash "$1" 42 12 "$how")
    other=$(hash "$1" 43 12 "$how")
    echo "seed 42: $one $two, seed 43: $other $how"
    [ -n "$one" ] && [ "$one" = "$two" ] && [ "$one" != "$other" ]
done
