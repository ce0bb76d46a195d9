# threadkeep's hook for bash: appends every command that ended to a file in the spool folder.
# Builtins only: no process is started, and nothing has to run on the other side.
# THREADKEEP_SHELL=off pauses it. What bash keeps out of its history is never written.

[[ $- == *i* ]] || return 0
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 404)); then
  builtin printf 'threadkeep: commands are recorded with bash 4.4 or newer; this is %s\n' \
    "$BASH_VERSION" >&2
  return 0
fi
# A hardened system may forbid any change here; its shells are left as they are.
[[ ${PROMPT_COMMAND@a} != *r* ]] || return 0

__threadkeep_spool='@SPOOL@'
__threadkeep_names=(
  HOME USER LOGNAME SHELL TERM COLORTERM TERM_PROGRAM LANG LC_ALL PATH SHLVL HOSTNAME EDITOR
  VISUAL TMPDIR VIRTUAL_ENV CONDA_DEFAULT_ENV NODE_ENV RAILS_ENV APP_ENV AWS_PROFILE
  AWS_DEFAULT_REGION KUBECONFIG XDG_CONFIG_HOME XDG_DATA_HOME HIPPO_SESSION_ID
)
# bash expands PS0 after a line was read and before it runs, without a process. Both variables are
# empty then, so := sets them, in the replacement of a letter that is not there; what comes out of
# that is the x that # takes away, so nothing is shown.
__threadkeep_x=x
__threadkeep_mark='${__threadkeep_x#${__threadkeep_x/y/${__threadkeep_started:='
if ((BASH_VERSINFO[0] > 4)); then
  __threadkeep_mark+='$EPOCHREALTIME'
else
  __threadkeep_mark+='\D{%s}'
fi
__threadkeep_mark+='}${__threadkeep_cwd:=$PWD}}}'
# From 5.1 on a list of prompt commands, each of which finds $?, $_ and PIPESTATUS as they were.
__threadkeep_lists=$((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501))

# The file is made for its owner alone. The umask is read where Linux tells it, because asking bash
# for it takes a process; elsewhere the folder alone keeps others out.
__threadkeep_make_private() {
  local key value mask= IFS=$' \t\n'
  while builtin read -r key value; do
    [[ $key == Umask: ]] && mask=$value && break
  done </proc/self/status
  [[ $mask ]] || return 0
  builtin umask 077
  : >>"$1"
  builtin umask "$mask"
}

# A folder of somebody else (after sudo) is left alone: its owner could not read what we write.
__threadkeep_folder() {
  folder=$__threadkeep_place
  [[ $folder ]] && return 0
  folder=${THREADKEEP_SPOOL:-$__threadkeep_spool}
  [[ -O $folder/ && -w $folder/ ]] && __threadkeep_place=$folder # for this prompt
}

__threadkeep_append() {
  local folder IFS=
  __threadkeep_folder || return 1
  [[ $* == *[$'\x1d\x1e\x1f']* ]] && set -- "${@//[$'\x1d\x1e\x1f']/$'\xef\xbf\xbd'}"
  [[ -e $folder/$__threadkeep_file ]] || __threadkeep_make_private "$folder/$__threadkeep_file"
  IFS=$'\x1f'
  builtin printf '\x1e%s\x1d\n' "$*" >>"$folder/$__threadkeep_file"
}

# All values in one text, to see at every prompt whether one has changed. This function, made of the
# names, took 0.04 ms where a loop over them took 0.15.
builtin printf -v __threadkeep_text '${%s-}\x1f' "${__threadkeep_names[@]}"
builtin eval "__threadkeep_values() { values=\"$__threadkeep_text\"; }"

__threadkeep_environment() {
  local name values
  local -a pairs=()
  __threadkeep_values
  [[ $values == "${__threadkeep_known_values-}" ]] && return 0
  for name in "${__threadkeep_names[@]}"; do
    [[ ${!name+set} ]] && pairs+=("$name=${!name}")
  done
  __threadkeep_append env1 "$THREADKEEP_SESSION_ID" $$ "${pairs[@]}" &&
    __threadkeep_known_values=$values
}

# Run a builtin and leave what it says in a file, as $(...) would be a process. The file is written
# over and never cut: on ext4 a write after a cut took 0.3 ms in the median and 4 ms at p99, a write
# over it 0.02 and 0.1 ms.
__threadkeep_write() {
  local folder
  __threadkeep_folder || return 1
  scratch=$folder/bash-$$.scratch
  [[ -e $scratch ]] || __threadkeep_make_private "$scratch"
  {
    HISTTIMEFORMAT=$'\x1e%s\x1f' builtin "$@"
    builtin printf '\0'
  } 1<>"$scratch"
}

# Set `output` to what a builtin says, and blank the file (a character has up to four bytes).
__threadkeep_ask() {
  local scratch
  output=
  __threadkeep_write "$@" || return 1
  IFS= builtin read -r -d '' output <"$scratch"
  builtin printf '%*s' $((${#output} * 4)) '' 1<>"$scratch"
}

# Set `number`, `stamp` and `command` to the last line of the history.
__threadkeep_last_line() {
  local scratch
  __threadkeep_write history 1 || return 1
  IFS=$'\x1e\x1f' builtin read -r -d '' number stamp command <"$scratch"
  builtin printf '%*s' $((${#command} * 4 + 40)) '' 1<>"$scratch"
  number=${number//[!0-9]/} command=${command%$'\n'}
  [[ $number && $stamp ]]
}

# Set `command` to the line that was added to the history since the last prompt was shown; fails
# when none was. The number does not grow where `erasedups` took an older line away: then the line's
# time or text tells.
__threadkeep_added() {
  local number stamp line
  __threadkeep_last_line || return 1
  ((number > __threadkeep_number)) || __threadkeep_replaced || return 1
  line=$command
  builtin shopt -q cmdhist || __threadkeep_join_lines "$((number - __threadkeep_number))"
  if [[ $line == "$__threadkeep_line" && :${HISTCONTROL-}: == *:threadkeep_ignoredups:* ]]; then
    builtin history -d "$number" # as `ignoredups` would have done before the command ran
  else
    __threadkeep_number=$number __threadkeep_stamp=$stamp __threadkeep_line=$line
  fi
  __threadkeep_seen=${__threadkeep_history@P}
}

# A line that is no later than the last one by its number is new if it has another text in the same
# place, or a later time; but a history that was read from its file again has new times all over.
__threadkeep_replaced() {
  if [[ $command == "$__threadkeep_line" ]]; then
    [[ :${HISTCONTROL-}: == *:erasedups:* ]] && ((stamp > __threadkeep_stamp))
  else
    ((number == __threadkeep_number || stamp > __threadkeep_stamp))
  fi
}

# Without `cmdhist` every line of a command is an entry of its own.
__threadkeep_join_lines() {
  local output
  (($1 > 1)) || return 0
  __threadkeep_ask history "$1"
  command=
  while [[ $output == *$'\x1f'* ]]; do
    output=${output#*$'\x1f'}
    command+=$'\n'${output%%$'\n'*}
  done
  command=${command:1}
}

__threadkeep_capture() {
  [[ $command == [[:blank:]]* ]] && return 0
  [[ $command == 'threadkeep run '* && $command != *[$'\n;&|']* ]] && return 0
  [[ ${__threadkeep_leaving-} && $command != *exit* && $command != *logout* ]] && code=
  __threadkeep_seq=$((__threadkeep_seq + 1))
  __threadkeep_environment
  __threadkeep_append end1 "$THREADKEEP_SESSION_ID" $$ "$__threadkeep_seq" bash "${HOSTNAME-}" \
    "${USER:-${LOGNAME-}}" "$started" "$ended" "$code" "${cwd:-$PWD}" "${#command}" \
    "${command:0:65536}"
}

# The first of the prompt commands: looks at the command that has ended.
__threadkeep_prompt() {
  local code=$? ended=${EPOCHREALTIME-} command=
  local started=$__threadkeep_started cwd=$__threadkeep_cwd
  local - # the options that follow hold in here only
  set +eufvxC
  [[ $ended ]] || builtin printf -v ended '%(%s)T' -1
  __threadkeep_started= __threadkeep_cwd= __threadkeep_place=
  # Without a time nothing was run, unless there is no mark that could have set it.
  if [[ $started || ${PS0-} != *"$__threadkeep_mark"* ]] && __threadkeep_added; then
    [[ $__threadkeep_on ]] && __threadkeep_capture
  fi
  __threadkeep_settle
  ((__threadkeep_lists)) || [[ $- == *e* ]] || return "$code"
  return 0
} 2>/dev/null

# The last of the prompt commands: remembers how things are before the next command. Other prompt
# commands may have read the history of other shells into this one.
__threadkeep_ready() {
  local code=$?
  local -
  set +eufvxC
  __threadkeep_place=
  # What was seen a moment ago still holds, unless others work on the history too.
  if [[ $__threadkeep_shared || $__threadkeep_seen != "${__threadkeep_history@P}" ]]; then
    __threadkeep_look
  fi
  __threadkeep_on=1
  [[ ${THREADKEEP_SHELL-} == off ]] && __threadkeep_on=
  [[ ${HISTCONTROL-} == "$__threadkeep_control" ]] || __threadkeep_take_doubles
  __threadkeep_set_mark
  ((__threadkeep_lists)) || [[ $- == *e* ]] || return "$code"
  return 0
} 2>/dev/null

__threadkeep_look() {
  local number=0 stamp=0 command=
  __threadkeep_last_line
  __threadkeep_number=$number __threadkeep_stamp=$stamp __threadkeep_line=$command
  __threadkeep_seen=${__threadkeep_history@P}
}

# With `ignoredups` a repeated command leaves the history as it was, just as a hidden one does. So
# bash adds the double, and it is taken out at the next prompt; bash passes over unknown words.
__threadkeep_take_doubles() {
  local folder words=:${HISTCONTROL-}:
  __threadkeep_control=
  [[ $words == *ignoreboth:* || $words == *ignoredups:* ]] || return 0
  if __threadkeep_folder; then
    words=${words//:ignoreboth:/:ignorespace:ignoredups:}
    words=${words//:ignoredups:/:threadkeep_ignoredups:}
  else # nothing can be read back from the history now, so bash has to do it
    words=${words//:threadkeep_ignoredups:/:ignoredups:}
  fi
  words=${words#:} words=${words%:}
  [[ $words == "${HISTCONTROL-}" || ${HISTCONTROL@a} == *r* ]] || HISTCONTROL=$words
  __threadkeep_control=${HISTCONTROL-}
}

__threadkeep_set_mark() {
  if ! builtin shopt -q promptvars; then
    PS0=${PS0/"$__threadkeep_mark"/} # it would be shown as it is written
  elif [[ ${PS0-} != *"$__threadkeep_mark"* ]]; then
    PS0=$__threadkeep_mark${PS0-}
  fi
}

# Keep our two at the ends of the prompt commands, wherever others have put theirs since.
__threadkeep_settle() {
  local first=${PROMPT_COMMAND[0]-} last=${PROMPT_COMMAND[@]: -1}
  if [[ ${bash_preexec_imported-}${__bp_imported-} ]]; then
    __threadkeep_frame precmd_functions
    [[ "${PROMPT_COMMAND[*]}" == *__threadkeep_* ]] && __threadkeep_leave
  elif [[ $first == __threadkeep_prompt && $last == __threadkeep_ready ]]; then
    :
  elif ((__threadkeep_lists)); then
    __threadkeep_frame PROMPT_COMMAND
  else
    __threadkeep_frame_text
  fi
  [[ "${PROMPT_COMMAND[*]}" == "$__threadkeep_prompts" ]] || __threadkeep_inspect
}

# See whether other prompt commands may change the history: by their own words, or by those of the
# functions that they name. It is asked again when there are others.
__threadkeep_inspect() {
  local word output
  local -a words=()
  __threadkeep_prompts="${PROMPT_COMMAND[*]}" __threadkeep_shared=
  [[ ${bash_preexec_imported-}${__bp_imported-} ]] && __threadkeep_shared=1
  IFS=$' \t\n;&|' builtin read -r -d '' -a words <<<"$__threadkeep_prompts"
  for word in "${words[@]}"; do
    output=$word
    [[ $word == __threadkeep_* ]] && continue
    builtin declare -F "$word" >/dev/null && __threadkeep_ask declare -f "$word"
    [[ $output == *history* || $output == *fc\ * ]] && __threadkeep_shared=1
  done
}

__threadkeep_frame() {
  local -n list=$1
  local -a others=()
  [[ ${list[0]-} == __threadkeep_prompt && ${list[-1]-} == __threadkeep_ready ]] && return 0
  __threadkeep_others "${list[@]}"
  list=(__threadkeep_prompt "${others[@]}" __threadkeep_ready)
}

__threadkeep_others() {
  local entry
  for entry; do
    entry=${entry//__threadkeep_prompt/:}
    entry=${entry//__threadkeep_ready/:}
    [[ $entry == : || ! $entry ]] || others+=("$entry")
  done
}

__threadkeep_frame_text() {
  local first=$'__threadkeep_prompt "$_"\n' last=$'\n__threadkeep_ready "$_"' text=${PROMPT_COMMAND-}
  [[ $text == "$first"*"$last" ]] && return 0
  text=${text//"$first"/}
  PROMPT_COMMAND=$first${text//"$last"/}$last
}

# bash-preexec calls us from now on.
__threadkeep_leave() {
  local -a others=()
  __threadkeep_others "${PROMPT_COMMAND[@]}"
  PROMPT_COMMAND=("${others[@]}")
}

__threadkeep_new_id() {
  builtin read -r id </proc/sys/kernel/random/uuid && return 0
  builtin printf -v id '%04x%04x-%04x-4%03x-8%03x-%04x%04x%04x' $((RANDOM << 1 & 65535)) $RANDOM \
    $RANDOM $((RANDOM & 4095)) $((RANDOM & 4095)) $RANDOM $RANDOM $(($$ & 65535))
}

# A nested shell belongs to the session of the one around it; another pane or window does not.
# Only zsh knows its terminal without a process; what it wrote in front of the bar is passed on.
__threadkeep_join_session() {
  local known=${THREADKEEP_SESSION_PLACE-} id=${THREADKEEP_SESSION_ID:-${HIPPO_SESSION_ID-}}
  local marks=${TMUX_PANE-}:${TERM_SESSION_ID-}:${WINDOWID-}:${KITTY_WINDOW_ID-}:${WEZTERM_PANE-}
  [[ ${THREADKEEP_SESSION_ID-} && ${known#*|} != "$marks" ]] && id= known=
  [[ ${#id} -ne 36 || $id == *[!0-9a-fA-F-]* ]] && known= && __threadkeep_new_id
  export THREADKEEP_SESSION_ID=$id THREADKEEP_SESSION_PLACE="${known%%|*}|$marks"
} 2>/dev/null

# `exit` is known only if nobody else wants to be told of the end. bash calls the trap as well when
# its terminal is closed, and then nobody knows how the command ended.
__threadkeep_watch_exit() {
  local output
  local -
  set +eufvxC
  __threadkeep_ask trap -p EXIT && [[ ! $output ]] &&
    builtin trap '__threadkeep_leaving=1 __threadkeep_prompt' EXIT
} 2>/dev/null

if [[ ${__threadkeep_pid-} != "$$" ]]; then
  __threadkeep_pid=$$ __threadkeep_seq=0 __threadkeep_number=0 __threadkeep_stamp=0
  __threadkeep_started= __threadkeep_cwd= __threadkeep_line= __threadkeep_on= __threadkeep_seen=
  __threadkeep_prompts= __threadkeep_shared=1 __threadkeep_place=
  __threadkeep_control= __threadkeep_history='\!' # as a prompt shows the number of the history
  builtin printf -v __threadkeep_file 'bash-%s-%(%s)T.tk' $$ -1
  __threadkeep_join_session || :
  __threadkeep_watch_exit || :
fi
__threadkeep_settle || :
