# threadkeep's hook for zsh: appends every command and its end to a file in the spool folder.
# Builtins only: no process is started, and nothing has to run on the other side.
# THREADKEEP_SHELL=off pauses it. A command with a leading blank is never written.

[[ -o interactive ]] || return 0
zmodload -F zsh/datetime p:EPOCHREALTIME p:EPOCHSECONDS 2>/dev/null || return 0
zmodload -F zsh/system b:sysopen b:syswrite 2>/dev/null || return 0

# One table holds all that is remembered; loading the hook again keeps what is in it.
typeset -gA __threadkeep
__threadkeep[spool]='@SPOOL@'
: ${__threadkeep[file]:=zsh-$$-$EPOCHSECONDS.tk} ${__threadkeep[seq]:=0}
typeset -ga __threadkeep_names=(
  HOME USER LOGNAME SHELL TERM COLORTERM TERM_PROGRAM LANG LC_ALL PATH SHLVL HOSTNAME EDITOR
  VISUAL TMPDIR VIRTUAL_ENV CONDA_DEFAULT_ENV NODE_ENV RAILS_ENV APP_ENV AWS_PROFILE
  AWS_DEFAULT_REGION KUBECONFIG XDG_CONFIG_HOME XDG_DATA_HOME HIPPO_SESSION_ID
)

# A folder of somebody else (after sudo) is left alone: its owner could not read what we write.
# sysopen gives the mode itself, so the user's umask is never touched.
__threadkeep_append() {
  local folder=${THREADKEEP_SPOOL:-$__threadkeep[spool]} text="${(j::)@}" fd
  local marks=$'[\x1d\x1e\x1f]' instead=$'\xef\xbf\xbd'
  [[ -O $folder/ && -w $folder/ ]] || return 1
  [[ $text == *${~marks}* ]] && set -- "${@//${~marks}/$instead}"
  text=$'\x1e'"${(pj:\x1f:)@}"$'\x1d\n'
  sysopen -a -w -o creat -m 0600 -u fd -- $folder/$__threadkeep[file] 2>/dev/null || return 1
  { syswrite -o $fd -- $text 2>/dev/null } always { exec {fd}>&- }
}

__threadkeep_environment() {
  local name
  local -a pairs=()
  for name in $__threadkeep_names; do
    (( ${(P)+name} )) && pairs+=("$name=${(P)name}")
  done
  [[ "${(pj:\x1f:)pairs}" == "$__threadkeep[environment]" ]] && return 0
  __threadkeep_append env1 $THREADKEEP_SESSION_ID $$ "${pairs[@]}" &&
    __threadkeep[environment]="${(pj:\x1f:)pairs}"
}

# History options that keep a line out of the history file keep it out here as well.
__threadkeep_wanted() {
  [[ -n $1 && ${THREADKEEP_SHELL-} != off && $1 != [[:blank:]]* ]] &&
    [[ $1 != 'threadkeep run '* || $1 == *[$'\n;&|']* ]] &&
    [[ -z ${HISTORY_IGNORE-} || $1 != ${~HISTORY_IGNORE} ]]
}

__threadkeep_preexec() {
  emulate -L zsh
  setopt no_err_exit no_err_return no_xtrace
  __threadkeep[started]=
  __threadkeep_wanted "$1" || return 0
  (( __threadkeep[seq] += 1 ))
  __threadkeep[started]=$EPOCHREALTIME
  __threadkeep[cwd]=$PWD
  __threadkeep[chars]=${#1}
  __threadkeep[command]=${1[1,65536]}
  __threadkeep_environment
  __threadkeep_append start1 $THREADKEEP_SESSION_ID $$ $__threadkeep[seq] zsh "$HOST" \
    "${USER:-$USERNAME}" $__threadkeep[started] "$__threadkeep[cwd]" $__threadkeep[chars] \
    "$__threadkeep[command]"
  return 0
}

__threadkeep_precmd() {
  local code=$? ended=$EPOCHREALTIME
  emulate -L zsh
  setopt no_err_exit no_err_return no_xtrace
  [[ -n $__threadkeep[started] ]] || return 0
  __threadkeep_append end1 $THREADKEEP_SESSION_ID $$ $__threadkeep[seq] zsh "$HOST" \
    "${USER:-$USERNAME}" $__threadkeep[started] $ended $code "$__threadkeep[cwd]" \
    $__threadkeep[chars] "$__threadkeep[command]"
  __threadkeep[started]=
  __threadkeep[command]=
  return 0
}

__threadkeep_new_id() {
  local -a random=()
  { read -r REPLY </proc/sys/kernel/random/uuid } 2>/dev/null && return 0
  repeat 7 random+=($(( [##16] (RANDOM << 1 ^ RANDOM) & 0xffff )))
  random=(${(l:4::0:)random})
  REPLY=${(L):-$random[1]$random[2]-$random[3]-4${random[4]:1}-8${random[5]:1}-}
  REPLY+=${(L):-$random[6]$random[7]${(l:4::0:)$(( [##16] $$ & 0xffff ))}}
}

# A nested shell belongs to the session of the one around it; another pane or window does not.
__threadkeep_join_session() {
  emulate -L zsh
  local REPLY known=${THREADKEEP_SESSION_PLACE-} id=${THREADKEEP_SESSION_ID:-${HIPPO_SESSION_ID-}}
  local marks="${TMUX_PANE-}:${TERM_SESSION_ID-}:${WINDOWID-}:${KITTY_WINDOW_ID-}:${WEZTERM_PANE-}"
  if [[ -n ${THREADKEEP_SESSION_ID-} ]]; then
    [[ ${known#*'|'} == $marks && ${known%%'|'*} == (|$TTY) ]] || id=
  fi
  if [[ ${#id} -ne 36 || $id == *[^0-9a-fA-F-]* ]]; then
    __threadkeep_new_id
    id=$REPLY
  fi
  export THREADKEEP_SESSION_ID=$id THREADKEEP_SESSION_PLACE="$TTY|$marks"
}
__threadkeep_join_session

# First in their lists: what other hooks take is not part of a command's time.
typeset -ga preexec_functions precmd_functions
preexec_functions=(__threadkeep_preexec ${preexec_functions:#__threadkeep_preexec})
precmd_functions=(__threadkeep_precmd ${precmd_functions:#__threadkeep_precmd})
