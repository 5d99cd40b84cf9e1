
# The names of locks. Others have chosen them: compadd expands nothing in them.
_distlock_names() {
    local -a names
    names=(${(f)"$(distlock --quiet list --names 2>/dev/null)"})
    compadd -a names
}
