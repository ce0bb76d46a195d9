# threadkeep: completion for fish.
function __threadkeep_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -lx COMP_WORDS (string join ' ' -- (string escape -- $words))
    set -lx COMP_CWORD $current
    set -lx _THREADKEEP_COMPLETE fish_complete
    for line in ($words[1] 2>/dev/null)
        set -l parts (string split -m 1 ',' -- $line)
        switch $parts[1]
            case dir
                __fish_complete_directories $current
            case file
                __fish_complete_path $current
            case '*'
                echo $parts[2]
        end
    end
end
complete --no-files --keep-order --command threadkeep --arguments '(__threadkeep_complete)'
