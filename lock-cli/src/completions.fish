
# What stands before the cursor without options and their values: the verb, the name of a lock, and the command.
function __fish_distlock_words
    set -l words (commandline -opc)
    set -l found
    set -l is_value no
    set -l escaped no
    for word in $words[2..]
        if test $is_value = yes
            set is_value no
        else if string match -q -- -- $word; and begin
                test $escaped = no; or test (count $found) -eq 2
            end
            set escaped yes
        else if test $escaped = yes; or not string match -q -- '-*' $word
            set -a found $word
        else if contains -- $word @WITH_VALUES@
            set is_value yes
        end
    end
    printf '%s\n' $found
end

function __fish_distlock_needs_name
    set -l words (__fish_distlock_words)
    test (count $words) -eq 1; and contains -- $words[1] run hold show break watch
end

function __fish_distlock_needs_program
    set -l words (__fish_distlock_words)
    test (count $words) -eq 2; and test $words[1] = run
end

# Others have chosen the names: fish expands nothing in them.
complete -c distlock -n __fish_distlock_needs_name -f -a "(distlock --quiet list --names 2>/dev/null)"
complete -c distlock -n __fish_distlock_needs_program -f -a "(__fish_complete_command)"
