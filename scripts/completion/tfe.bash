# Completion for bash. Options and verbs are read from the output of -h, so they are those of the installed program.
_tfe() {
    local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} verb='' verbs='' i
    if [[ ${program##*/} == tfe-ctl ]]; then
        verbs=$("$program" -h 2>/dev/null | sed -n '/^Verbs/,$s/^  \([a-z][a-z -]*[a-z]\)  .*/\1/p')
        for ((i = 1; i < COMP_CWORD; i++)); do
            case ${COMP_WORDS[i]} in
                -*) ;;
                *) verb="${verb:+$verb }${COMP_WORDS[i]}" ;;
            esac
        done
    fi
    if [[ $word == -* ]]; then
        # A verb of two words first, then its first word; operands are no verbs.
        local try found=''
        for try in "$(cut -d' ' -f1,2 <<<"$verb")" "${verb%% *}" ''; do
            [[ -z $try ]] || grep -qx -- "$try" <<<"$verbs" || continue
            found=$try
            break
        done
        # shellcheck disable=SC2086
        COMPREPLY=($(compgen -W "$("$program" $found -h 2>/dev/null | sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p')" -- "$word"))
    elif [[ -n $verbs ]]; then
        local next
        next=$(awk -v verb="$verb" 'verb == "" { print $1 } verb != "" && index($0, verb " ") == 1 { print $(split(verb, x, " ") + 1) }' <<<"$verbs")
        COMPREPLY=($(compgen -W "$next" -- "$word"))
    fi
}
complete -o default -F _tfe tfe-agent tfe-ctl tfe-rdzv tfe-web
