# threadkeep: completion for bash 4.4 and later.
_threadkeep() {
    local IFS=$'\n' line value
    COMPREPLY=()
    for line in $(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \
        _THREADKEEP_COMPLETE=bash_complete "$1" 2>/dev/null); do
        value=${line#*,}
        case $line in
            dir,*) compopt -o dirnames ;;
            file,*) compopt -o default ;;
            # As a file name it is quoted where it has blanks.
            *) COMPREPLY+=("$value"); [[ $value != *' '* ]] || compopt -o filenames ;;
        esac
    done
}
complete -o nosort -F _threadkeep threadkeep
