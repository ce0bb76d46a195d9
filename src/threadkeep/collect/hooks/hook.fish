# threadkeep's hook for fish: appends every command and its end to a file in the spool folder.
# Builtins only: no process is started, and nothing has to run on the other side.
# THREADKEEP_SHELL=off pauses it. A command with a leading blank is never written.

# A folder of somebody else (after sudo) is left alone: its owner could not read what we write.
function __threadkeep_folder
    set -l folder $__threadkeep_spool
    test -n "$THREADKEEP_SPOOL"; and set folder $THREADKEEP_SPOOL
    test -O "$folder" -a -w "$folder"; and builtin printf '%s' $folder
end

# A file is made for its owner alone, whatever the user's umask is.
function __threadkeep_make_private --argument-names file
    test -e $file; and return
    set -l mask $umask
    set umask 0077
    builtin printf '' >>$file
    set umask $mask
end

function __threadkeep_append
    set -l folder (__threadkeep_folder | builtin string collect); or return 1
    set -l text $argv[1]
    for field in $argv[2..]
        if builtin string match -qr '[\x1d-\x1f]' -- $field
            set field (builtin string replace -ar '[\x1d-\x1f]' \ufffd -- $field | builtin string collect)
        end
        set text "$text"\x1f"$field"
    end
    __threadkeep_make_private $folder/$__threadkeep_file
    builtin printf '%s' \x1e"$text"\x1d\n >>$folder/$__threadkeep_file
    and return
    # fish tells of a full disk by itself, and nothing keeps it from that: so not at every prompt.
    set -g __threadkeep_rest 100
    return 1
end

function __threadkeep_write_environment
    set -l pairs
    for name in $__threadkeep_names
        set -q $name; and set -a pairs "$name=$$name"
    end
    test "$pairs" = "$__threadkeep_environment"; and return
    __threadkeep_append env1 $THREADKEEP_SESSION_ID $fish_pid $pairs
    and set -g __threadkeep_environment "$pairs"
end

# What fish keeps out of its history, or would not write to a file, is not wanted here either.
function __threadkeep_wanted --argument-names command
    test "$THREADKEEP_SHELL" != off -a -z "$fish_private_mode"; or return 1
    set -q fish_history; and test -z "$fish_history"; and return 1
    builtin string match -qr '^(\s|threadkeep run |$)' -- $command; and return 1
    test $__threadkeep_rest -eq 0; or set __threadkeep_rest (math $__threadkeep_rest - 1)
    test $__threadkeep_rest -eq 0; or return 1
    functions -q fish_should_add_to_history; or return 0
    fish_should_add_to_history $command
end

# fish has no clock without a process, but the time of a file that was just emptied is one, in whole
# seconds. A command did not start before the last one ended: that keeps them in order, and two
# seconds are more than it can be off unless somebody has set the clock.
function __threadkeep_start_time
    set -g __threadkeep_started
    set -l folder (__threadkeep_folder | builtin string collect); or return
    set -l scratch $folder/fish-$fish_pid.scratch
    contains path $__threadkeep_builtins; or return
    __threadkeep_make_private $scratch
    builtin printf '' >$scratch; or return
    set -g __threadkeep_started (builtin path mtime -- $scratch)
    set -l ahead (math "$__threadkeep_ended - $__threadkeep_started")
    test $ahead -gt 0 -a $ahead -lt 2; and set __threadkeep_started $__threadkeep_ended
end

function __threadkeep_preexec --on-event fish_preexec
    set -l command "$argv[1]"
    set -g __threadkeep_command
    __threadkeep_wanted $command; or return
    __threadkeep_start_time
    set -g __threadkeep_seq (math $__threadkeep_seq + 1)
    set -g __threadkeep_cwd "$PWD"
    set -g __threadkeep_chars (builtin string length -- $command)
    if test $__threadkeep_chars -gt 65536
        set command (builtin string sub -l 65536 -- $command | builtin string collect)
    end
    set __threadkeep_command $command
    __threadkeep_write_environment
    __threadkeep_append start1 $THREADKEEP_SESSION_ID $fish_pid $__threadkeep_seq fish "$hostname" \
        "$USER" "$__threadkeep_started" $__threadkeep_cwd $__threadkeep_chars $command
end

function __threadkeep_postexec --on-event fish_postexec
    set -l code $status
    set -l took $CMD_DURATION
    set -q __threadkeep_command[1]; or return
    set -l ended
    if test -n "$__threadkeep_started"
        set -g __threadkeep_ended (math --scale 3 "$__threadkeep_started + $took / 1000")
        set ended $__threadkeep_ended
    end
    __threadkeep_append end1 $THREADKEEP_SESSION_ID $fish_pid $__threadkeep_seq fish "$hostname" \
        "$USER" "$__threadkeep_started" "$ended" $code $__threadkeep_cwd $__threadkeep_chars \
        $__threadkeep_command
    set -g __threadkeep_command
end

function __threadkeep_new_id
    if test -r /proc/sys/kernel/random/uuid
        read -l id </proc/sys/kernel/random/uuid
        builtin printf '%s' $id
        return
    end
    set -l n
    for place in 1 2 3 4 5 6 7 8
        set -a n (random 0 65535)
    end
    builtin printf '%04x%04x-%04x-4%03x-8%03x-%04x%04x%04x' $n[1..3] (math $n[4] % 4096) (math $n[5] % 4096) $n[6..8]
end

# A nested shell belongs to the session of the one around it; another pane or window does not.
# Only zsh knows its terminal without a process; what it wrote in front of the bar is passed on.
function __threadkeep_join_session
    set -l id "$THREADKEEP_SESSION_ID"
    set -l marks "$TMUX_PANE:$TERM_SESSION_ID:$WINDOWID:$KITTY_WINDOW_ID:$WEZTERM_PANE"
    set -l known (builtin string split -m 1 '|' -- "$THREADKEEP_SESSION_PLACE")
    if test -z "$id"
        set id "$HIPPO_SESSION_ID"
    else if test "$known[2]" != $marks
        set id
    end
    if not builtin string match -qr '^[0-9a-fA-F-]{36}$' -- "$id"
        set id (__threadkeep_new_id)
        set known ''
    end
    set -gx THREADKEEP_SESSION_ID $id
    set -gx THREADKEEP_SESSION_PLACE "$known[1]|$marks"
end

if status is-interactive
    set -g __threadkeep_spool '@SPOOL@'
    if test "$__threadkeep_pid" != $fish_pid
        set -g __threadkeep_pid $fish_pid
        set -g __threadkeep_seq 0
        set -g __threadkeep_ended 0
        set -g __threadkeep_rest 0
        set -g __threadkeep_command
        set -g __threadkeep_environment
        set -g __threadkeep_builtins (builtin --names)
        set -g __threadkeep_names HOME USER LOGNAME SHELL TERM COLORTERM TERM_PROGRAM LANG LC_ALL \
            PATH SHLVL HOSTNAME EDITOR VISUAL TMPDIR VIRTUAL_ENV CONDA_DEFAULT_ENV NODE_ENV \
            RAILS_ENV APP_ENV AWS_PROFILE AWS_DEFAULT_REGION KUBECONFIG XDG_CONFIG_HOME \
            XDG_DATA_HOME HIPPO_SESSION_ID
        __threadkeep_join_session
        # The file's name needs a time as well: a process id comes back some day.
        __threadkeep_start_time
        set -g __threadkeep_file fish-$fish_pid-"$__threadkeep_started".tk
    end
else
    functions --erase __threadkeep_preexec __threadkeep_postexec
end
