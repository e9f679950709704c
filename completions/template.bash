# Bash completion of ckpt. Made by completions/generate.py.

# Split the line before the cursor into words as bash does, but run nothing that it holds. Bash's own
# COMP_WORDS are also split at '@', ':' and '=', which thread ids have.
# Sets _ckpt_words, the last word as _ckpt_cur, its open quote, and the part of it that readline
# keeps when it inserts a completion: all up to the last word break that is not quoted.
_ckpt_split() {
    local _i _c _begun= _before= _tilde= _redirected=
    local _variable='^\$\{?([A-Za-z_][A-Za-z_0-9]*)\}?'
    for ((_i = 0; _i < ${#1}; _i++)); do
        _c=${1:_i:1}
        case $_ckpt_quote$_c in
            [\'\"]) _ckpt_quote=$_c _begun=1 _before=$_ckpt_cur ;;
            \'\' | \"\") _ckpt_quote= ;;
            \$ | \"\$)
                _begun=1
                if [[ ${1:_i} =~ $_variable ]]; then
                    _ckpt_cur+=${!BASH_REMATCH[1]-}
                    _i=$((_i + ${#BASH_REMATCH[0]} - 1))
                elif [[ -n $_ckpt_quote || ${1:_i+1:1} != [\'\"] ]]; then
                    _ckpt_cur+=$_c
                fi ;;
            \"\\)
                [[ ${1:_i+1:1} == [\"\\\$\`] ]] && _i=$((_i + 1))
                _ckpt_cur+=${1:_i:1} ;;
            [\'\"]*) _ckpt_cur+=$_c ;;
            \\)
                _i=$((_i + 1)) _begun=1
                _ckpt_cur+=${1:_i:1} ;;
            [[:space:]]) _ckpt_end_word ;;
            [\<\>])
                _ckpt_end_word
                _redirected=1 ;;
            *)
                [[ $_c == "~" && -z $_begun && ${1:_i+1:1} == / ]] && _tilde=1
                _begun=1
                _ckpt_cur+=$_c
                if [[ $COMP_WORDBREAKS == *"$_c"* ]]; then
                    _ckpt_kept=$_ckpt_cur
                    # Readline inserts '@' again if it completes host names.
                    [[ $_c == @ ]] && shopt -q hostcomplete && _ckpt_kept=${_ckpt_cur%@}
                fi ;;
        esac
    done
    [[ -n $_ckpt_quote ]] && _ckpt_kept=$_before
    _ckpt_file=$_redirected
}

_ckpt_end_word() {
    [[ -n $_tilde ]] && _ckpt_cur=$HOME${_ckpt_cur:1}
    [[ -n $_begun && -z $_redirected ]] && _ckpt_words+=("$_ckpt_cur")
    [[ -n $_begun ]] && _redirected=
    _begun= _tilde= _ckpt_cur= _ckpt_kept=
}

# Offer a word, quoted as the word on the line is.
_ckpt_offer() {
    local text=$lead$1
    text=${text:${#_ckpt_kept}}
    case $_ckpt_quote in
        "") [[ $text == *[!a-zA-Z0-9_.,:/@%+=-]* ]] && printf -v text %q "$text" ;;
        \')
            text=${text//\'/\'\\\'\'} ;;
        \")
            text=${text//\\/\\\\}
            text=${text//\"/\\\"}
            text=${text//\$/\\\$}
            text=${text//\`/\\\`}
            text=${text//!/\"\\!\"} ;;
    esac
    # Readline closes a quote, except behind one.
    [[ -n $_ckpt_quote && $text == *"$_ckpt_quote" ]] && text+=$_ckpt_quote
    COMPREPLY+=("$text")
}

_ckpt_answer() {
    local cur=$_ckpt_cur program=${_ckpt_words[0]} IFS=$' \t\n'
    local word want= cmd= thread= store= config= ns= kind= place=0 ended= lead= is_value=
    local -a before=("${_ckpt_words[@]:1}")
@SHARED@
    [[ -n $_ckpt_file ]] && kind=file
    case $kind in
        "") ;;
        file) ;;
        words:*)
            for word in ${kind#words:}; do
                [[ $word == "$cur"* ]] && _ckpt_offer "$word"
            done
            return ;;
        *)
            type -P "$program" > /dev/null || program=ckpt
            while IFS=$'\t' read -r word _; do
                [[ $word == -* && -z $is_value ]] || _ckpt_offer "$word"
            done < <("$program" _complete "$kind" "$cur" "$store" "$config" "$thread" "$ns" \
                2> /dev/null) ;;
    esac
    [[ $kind == file || $kind == store ]] || return
    if [[ ${#COMPREPLY[@]} == 0 ]] && compopt -o default 2> /dev/null; then return; fi
    while IFS= read -r word; do
        [[ -d $word ]] && word+=/
        _ckpt_offer "$word"
    done < <(compgen -f -- "$cur")
    # A URL goes on behind its scheme, a path behind its folder.
    [[ ${COMPREPLY[0]-} == */ ]] && compopt -o nospace 2> /dev/null
}

_ckpt() {
    local _ckpt_cur= _ckpt_kept= _ckpt_quote= _ckpt_file=
    local -a _ckpt_words=()
    COMPREPLY=()
    # Before any variable is declared whose name may be on the line.
    _ckpt_split "${COMP_LINE:0:COMP_POINT}"
    _ckpt_answer
}

complete -F _ckpt ckpt
