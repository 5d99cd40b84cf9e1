
# The names of locks, and the command behind one. What takes a value is followed by it.
_distlock_locks() {
    local cur=${COMP_WORDS[COMP_CWORD]} verb= name= escaped= word i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == -- ]]; then
            if [[ $name ]]; then
                ((i++))
                break
            fi
            escaped=yes
        elif [[ $word == -?* && ! $escaped ]]; then
            if [[ " @WITH_VALUES@ " == *" $word "* ]]; then
                ((i++))
                # Readline cuts words at these.
                if [[ ${COMP_WORDS[i]-} == = ]]; then ((i++)); fi
                while [[ ${COMP_WORDS[i + 1]-} == [:=] ]]; do ((i += 2)); done
            fi
        elif [[ ! $verb ]]; then
            verb=$word
        elif [[ ! $name ]]; then
            name=$word
            while [[ ${COMP_WORDS[i + 1]-} == [:=] ]]; do ((i += 2)); done
        else
            # The command begins here.
            break
        fi
    done
    if ((i > COMP_CWORD)) || [[ $cur == -* && ! $escaped && $i == "$COMP_CWORD" ]]; then
        _distlock "$@"
    elif [[ $verb == @(run|hold|show|break|watch) && ! $name ]]; then
        # Others have chosen them: nothing in them is expanded, which compgen -W would do.
        while IFS= read -r word; do
            if [[ $word == "$cur"* ]]; then COMPREPLY+=("$(printf %q "$word")"); fi
        done < <(distlock --quiet list --names 2>/dev/null)
    elif [[ $verb != run ]]; then
        _distlock "$@"
    elif ((i == COMP_CWORD)); then
        COMPREPLY=($(compgen -c -- "$cur"))
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$i"
    else
        # The names of files, which bash knows by itself.
        COMPREPLY=()
    fi
}
complete -F _distlock_locks -o bashdefault -o default distlock
