# threadkeep's hook for fish: appends every command and its end to a file in the spool folder.
# Builtins only: no process is started, and nothing has to run on the other side.
# THREADKEEP_SHELL=off pauses it. A command with a leading blank is never written.

# Set __threadkeep_folder, or fail where nothing can be written. A folder of somebody else (after
# sudo) is left alone: its owner could not read what we write.
function __threadkeep_find_folder
    set -g __threadkeep_folder $__threadkeep_spool
    test -n "$THREADKEEP_SPOOL"; and set __threadkeep_folder $THREADKEEP_SPOOL
    test -O "$__threadkeep_folder/" -a -w "$__threadkeep_folder/"
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
    __threadkeep_find_folder; or return 1
    set -l text $argv[1]
    set -l fields $argv[2..]
    builtin string match -qr '[\x1d-\x1f]' -- $fields; and __threadkeep_clean $fields
    and set fields $__threadkeep_cleaned
    for field in $fields
        set text "$text"\x1f"$field"
    end
    set -l file $__threadkeep_folder/$__threadkeep_file
    __threadkeep_make_private $file
    builtin printf '%s' \x1e"$text"\x1d\n >>$file
    and return
    # fish tells of a full disk by itself, and nothing keeps it from that: so not at every prompt.
    set -g __threadkeep_rest 100
    return 1
end

function __threadkeep_clean
    set -g __threadkeep_cleaned
    for field in $argv
        set -a __threadkeep_cleaned (builtin string replace -ar '[\x1d-\x1f]' \ufffd -- $field | builtin string collect --allow-empty)
    end
end

function __threadkeep_write_environment
    __threadkeep_values
    test "$__threadkeep_now" = "$__threadkeep_known"; and return
    set -l pairs
    for name in $__threadkeep_names
        set -q $name; and set -a pairs "$name=$$name"
    end
    __threadkeep_append env1 $THREADKEEP_SESSION_ID $fish_pid $pairs
    and set -g __threadkeep_known $__threadkeep_now
end

# What fish keeps out of its history, or would not write to a file, is not wanted here either.
function __threadkeep_wanted --argument-names command
    test "$THREADKEEP_SHELL" != off -a -z "$fish_private_mode"; or return 1
    set -q fish_history; and test -z "$fish_history"; and return 1
    builtin string match -qr '^(\s|threadkeep run [^;&|\n]*$|$)' -- $command; and return 1
    test $__threadkeep_rest -eq 0; or set __threadkeep_rest (math $__threadkeep_rest - 1)
    test $__threadkeep_rest -eq 0; or return 1
    functions -q fish_should_add_to_history; or return 0
    fish_should_add_to_history $command
end

# fish has no clock without a process, but the time of a file that was just emptied is one, in whole
# seconds. Before fish 3.6, which cannot ask for that time, Linux tells how long it has been running.
function __threadkeep_clock
    if contains path $__threadkeep_builtins
        __threadkeep_find_folder; or return
        set -l scratch $__threadkeep_folder/fish-$fish_pid.scratch
        __threadkeep_make_private $scratch
        builtin printf '' >$scratch; and builtin path mtime -- $scratch
    else if test -n "$__threadkeep_boot"
        read -l up idle </proc/uptime; and math "$__threadkeep_boot + $up"
    end
end

function __threadkeep_boot_time
    test -r /proc/stat; or return
    while read -l name value
        test "$name" = btime; and builtin printf '%s' $value
    end </proc/stat
end

# One command substitution for all: each of them wakes another thread of fish.
function __threadkeep_preexec --on-event fish_preexec
    set -l command "$argv[1]"
    set -g __threadkeep_command
    __threadkeep_wanted $command; or return
    set -l facts (math $__threadkeep_seq + 1; builtin string length -- $command; __threadkeep_clock)
    set -q facts[3]; or return
    set -g __threadkeep_seq $facts[1]
    set -g __threadkeep_chars $facts[2]
    set -g __threadkeep_started $facts[3]
    set -g __threadkeep_cwd "$PWD"
    # It did not start before the last one ended: that keeps them in order. Two seconds are more than
    # the clock can be off, unless somebody has set it.
    if test $__threadkeep_ended[1] -gt $facts[3] -a $__threadkeep_ended[2] -lt $facts[3]
        set __threadkeep_started $__threadkeep_ended[1]
    end
    if test $__threadkeep_chars -gt 65536
        set command (builtin string sub -l 65536 -- $command | builtin string collect)
    end
    set __threadkeep_command $command
    __threadkeep_write_environment
    __threadkeep_append start1 $THREADKEEP_SESSION_ID $fish_pid $__threadkeep_seq fish "$hostname" \
        "$USER" $__threadkeep_started $__threadkeep_cwd $__threadkeep_chars $command
end

function __threadkeep_postexec --on-event fish_postexec
    set -l code $status
    set -l end "$__threadkeep_started + $CMD_DURATION / 1000"
    set -q __threadkeep_command[1]; or return
    set -g __threadkeep_ended (math --scale=3 $end; math --scale=3 "$end - 2")
    __threadkeep_append end1 $THREADKEEP_SESSION_ID $fish_pid $__threadkeep_seq fish "$hostname" \
        "$USER" $__threadkeep_started $__threadkeep_ended[1] $code $__threadkeep_cwd \
        $__threadkeep_chars $__threadkeep_command
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
        set -g __threadkeep_ended 0 0
        set -g __threadkeep_rest 0
        set -g __threadkeep_command
        set -g __threadkeep_known
        set -g __threadkeep_builtins (builtin --names)
        set -g __threadkeep_boot (__threadkeep_boot_time)
        set -g __threadkeep_names HOME USER LOGNAME SHELL TERM COLORTERM TERM_PROGRAM LANG LC_ALL \
            PATH SHLVL HOSTNAME EDITOR VISUAL TMPDIR VIRTUAL_ENV CONDA_DEFAULT_ENV NODE_ENV \
            RAILS_ENV APP_ENV AWS_PROFILE AWS_DEFAULT_REGION KUBECONFIG XDG_CONFIG_HOME \
            XDG_DATA_HOME HIPPO_SESSION_ID
        # All values in one text, to see with every command whether one has changed. This function,
        # made of the names, took 0.05 ms where a loop over them took 0.26.
        eval 'function __threadkeep_values; set -g __threadkeep_now "$'(builtin string join '|$' -- $__threadkeep_names)'"; end'
        __threadkeep_join_session
        # The file's name needs a time as well: a process id comes back some day.
        set -g __threadkeep_file fish-$fish_pid-(math --scale=0 "0"(__threadkeep_clock)).tk
    end
else
    functions --erase __threadkeep_preexec __threadkeep_postexec
end
