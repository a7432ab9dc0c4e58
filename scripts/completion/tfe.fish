# Completion for fish. Options and verbs are read from the output of -h, so they are those of the installed program.
function __tfe_verbs
    tfe-ctl -h 2>/dev/null | sed -n '/^Verbs/,$s/^  \([a-z][a-z -]*[a-z]\)  .*/\1/p'
end
function __tfe_options
    set -l words (commandline -opc)
    set -l verb
    if test (path basename $words[1] 2>/dev/null; or string split -r -m1 / $words[1])[-1] = tfe-ctl
        for name in (__tfe_verbs)
            string match -q -- "$name *" "$words[2..-1] "; and set verb (string split ' ' $name)
        end
    end
    $words[1] $verb -h 2>/dev/null | sed -n 's/^  \(-., \|    \)\(--[a-z-]*\).*/\2/p'
end
for program in tfe-agent tfe-ctl tfe-rdzv tfe-web
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -a '(__tfe_options)'
end
complete -c tfe-ctl -n 'test (count (commandline -opc)) = 1' -a '(__tfe_verbs | string split -f1 " ")'
