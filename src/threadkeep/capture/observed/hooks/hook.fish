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
    set -l mask $umask
    set umask 0077
    builtin printf '' >>$file
    set umask $mask
end

# Append one record. `printf` writes it in one piece, whatever else writes to the file.
function __threadkeep_append --argument-names text
    set -l file $__threadkeep_folder/$__threadkeep_file
    test -e $file; or __threadkeep_make_private $file
    builtin printf '%s' \x1e"$text"\x1d\n >>$file
    and return
    # fish tells of a full disk by itself, and nothing keeps it from that: so not at every prompt.
    set -g __threadkeep_rest 100
    return 1
end

# Set __threadkeep_cleaned to values without the characters that separate records and fields.
function __threadkeep_clean
    set -g __threadkeep_cleaned $argv
    builtin string match -qr '[\x1d-\x1f]' -- $argv; or return
    set __threadkeep_cleaned
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
    __threadkeep_clean $THREADKEEP_SESSION_ID $pairs
    set -l text env1\x1f"$__threadkeep_cleaned[1]"\x1f$fish_pid
    for pair in $__threadkeep_cleaned[2..]
        set text "$text"\x1f"$pair"
    end
    __threadkeep_append $text
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
# `| read` takes what a builtin says without the thread that a command substitution wakes: 0.1 ms
# each on a busy machine.
function __threadkeep_clock
    set -g __threadkeep_started
    if set -q __threadkeep_paths
        set -l scratch $__threadkeep_folder/fish-$fish_pid.scratch
        test -e $scratch; or __threadkeep_make_private $scratch
        builtin printf '' >$scratch
        and builtin path mtime -- $scratch | read -g __threadkeep_started
    else if test -n "$__threadkeep_boot"
        read -l up idle </proc/uptime; and math "$__threadkeep_boot + $up" | read -g __threadkeep_started
    end
    test -n "$__threadkeep_started"
end

function __threadkeep_boot_time
    test -r /proc/stat; or return
    while read -l name value
        test "$name" = btime; and builtin printf '%s' $value
    end </proc/stat
end

function __threadkeep_preexec --on-event fish_preexec
    set -l command "$argv[1]"
    set -g __threadkeep_record
    __threadkeep_wanted $command; or return
    __threadkeep_find_folder; and __threadkeep_clock; or return
    math $__threadkeep_seq + 1 | read -g __threadkeep_seq
    # It did not start before the last one ended: that keeps them in order. Two seconds are more than
    # the clock can be off, unless somebody has set it.
    if test "$__threadkeep_ended" -gt $__threadkeep_started
        math $__threadkeep_ended - $__threadkeep_started | read -l early
        test $early -lt 2; and set __threadkeep_started $__threadkeep_ended
    end
    builtin string length -- $command | read -l chars
    if test $chars -gt 65536
        set command (builtin string sub -l 65536 -- $command | builtin string collect)
    end
    __threadkeep_clean "$THREADKEEP_SESSION_ID" "$hostname" "$USER" "$PWD" $command
    set -l said $__threadkeep_cleaned
    set -g __threadkeep_record \x1f"$said[1]"\x1f$fish_pid\x1f$__threadkeep_seq\x1ffish\x1f"$said[2]"\x1f"$said[3]"\x1f$__threadkeep_started\x1f \
        "$said[4]"\x1f"$chars"\x1f"$said[5]"
    __threadkeep_write_environment
    __threadkeep_append start1"$__threadkeep_record[1]$__threadkeep_record[2]"
end

function __threadkeep_postexec --on-event fish_postexec
    set -l code $status
    set -q __threadkeep_record[1]; or return
    math --scale=3 "$__threadkeep_started + $CMD_DURATION / 1000" | read -g __threadkeep_ended
    __threadkeep_append end1"$__threadkeep_record[1]"$__threadkeep_ended\x1f$code\x1f"$__threadkeep_record[2]"
    set -g __threadkeep_record
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
        set -g __threadkeep_record
        set -g __threadkeep_known
        contains path (builtin --names); and set -g __threadkeep_paths
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
        __threadkeep_find_folder; and __threadkeep_clock
        set -g __threadkeep_file fish-$fish_pid-(math --scale=0 "0$__threadkeep_started").tk
    end
else
    functions --erase __threadkeep_preexec __threadkeep_postexec
end
