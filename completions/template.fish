# Fish completion of ckpt. Made by completions/generate.py.

# Find out what the words before the cursor say. Fish asks many conditions for one key press, so the
# answer is kept until the line changes.
function __ckpt_read
    set -l line (commandline -pc | string collect)
    set -q __ckpt_line; and test "$line" = "$__ckpt_line"; and return
    set -g __ckpt_line $line
    set -g __ckpt_cmd ''
    set -g __ckpt_place 0
    set -g __ckpt_thread ''
    set -g __ckpt_store ''
    set -g __ckpt_config ''
    set -g __ckpt_ns ''
    set -g __ckpt_ended ''
    set -l want ''
    for word in (commandline -opc)[2..-1]
        if test -n "$want"
            __ckpt_keep $want $word
            set want ''
        else if test -z "$__ckpt_ended"; and string match -q -- '-*' $word
            switch "$__ckpt_cmd $word"
                case '* --'
                    set -g __ckpt_ended 1
                case '* --*=*'
                    __ckpt_keep (string split -m 1 = -- $word)
                case @VALUED@
                    set want $word
            end
        else if test -z "$__ckpt_cmd"
            set -g __ckpt_cmd $word
        else if contains -- $__ckpt_cmd @GROUPS@
            set -g __ckpt_cmd "$__ckpt_cmd $word"
        else
            test $__ckpt_place = 0; and set -g __ckpt_thread $word
            set -g __ckpt_place (math $__ckpt_place + 1)
        end
    end
end

function __ckpt_keep
    set -l value (string replace -r '^~/' "$HOME/" -- $argv[2])
    if set -l name (string match -r -g '^\$(\w+)$' -- $value)
        set value $$name
    end
    switch $argv[1]
        case -s --store
            set -g __ckpt_store $value
        case --config
            set -g __ckpt_config $value
        case --ns --namespace
            set -g __ckpt_ns $value
    end
end

# Whether the command is the first argument.
function __ckpt_in
    __ckpt_read
    test "$__ckpt_cmd" = "$argv[1]"
end

# Whether the word at the cursor is the argument of a command at a place, or between two places.
function __ckpt_at
    __ckpt_read
    test "$__ckpt_cmd" = "$argv[1]"; or return
    test $__ckpt_place -ge $argv[2]; and test $__ckpt_place -le $argv[-1]
end

function __ckpt_ask
    __ckpt_read
    set -l program (string replace -r '^~/' "$HOME/" -- (commandline -opc)[1])
    type -fq -- $program; or set program ckpt
    set -l token (commandline -ct)
    string match -q -- '--*=*' $token; and set token (string split -m 1 = -- $token)[2]
    # The word may have an open quote.
    set -l word (string unescape -- $token; or string unescape -- $token\"; or string unescape -- $token\')
    set -l found ($program _complete $argv[1] "$word" "$__ckpt_store" "$__ckpt_config" \
        "$__ckpt_thread" "$__ckpt_ns" 2>/dev/null)
    # An argument must not look like an option.
    if test "$argv[2]" = argument; and test -z "$__ckpt_ended"
        string match -v -- '-*' $found
    else
        string join \n -- $found
    end
end

complete -c ckpt -f
