#compdef threadkeep
# threadkeep: completion for zsh.
_threadkeep() {
    local kind value told
    local -a told_of plain
    (( $+commands[$words[1]] )) || [[ -x $words[1] ]] || return 1
    while IFS= read -r kind && IFS= read -r value && IFS= read -r told; do
        case $kind in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            *) if [[ $told == _ ]]; then plain+=("$value"); else told_of+=("$value:$told"); fi ;;
        esac
    done < <(COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT - 1)) \
        _THREADKEEP_COMPLETE=zsh_complete $words[1] 2>/dev/null)
    (( $#told_of )) && _describe -V threadkeep told_of
    (( $#plain )) && compadd -V threadkeep -a plain
    return 0
}
if [[ $funcstack[1] == _threadkeep ]]; then _threadkeep "$@"; else compdef _threadkeep threadkeep; fi
