#compdef ckpt
# Zsh completion of ckpt. Made by completions/generate.py.

_ckpt() {
    local cur word want= cmd= thread= store= config= ns= kind= place=0 ended= lead= is_value=
    local -a before found values shown ends
    before=("${(@Q)words[2,CURRENT-1]}")
    # Variables and the home folder; nothing else that the line holds is expanded.
    for ((place = 1; place <= $#before; place++)); do
        word=$words[place+1]
        if [[ $word == '~/'* ]]; then
            before[place]=$HOME${before[place]#'~'}
        elif [[ $word == *'$'* && $word != *[^A-Za-z0-9_/.=\$-]* ]]; then
            before[place]=${(e)word}
        fi
    done
    place=0
    cur=$PREFIX
    [[ $compstate[quote] == "'" ]] || cur=${(Q)cur}
@SHARED@
    [[ -n $lead ]] && compset -P 1 '*='
    case $kind in
        "") return 1 ;;
        file) _files ;;
        words:*) found=(${=kind#words:}); compadd -a found ;;
        *)
            found=("${(@f)$("${(Q)words[1]}" _complete "$kind" "$cur" "$store" "$config" \
                "$thread" "$ns" 2> /dev/null)}")
            [[ -z $is_value ]] && found=("${(@)found:#-*}")
            found=("${(@)found:#}")
            values=("${(@)found%%$'\t'*}") shown=("${(@)found//$'\t'/  -- }")
            # A URL goes on behind its scheme.
            [[ $values[-1] == *:// ]] && ends=(-S '')
            compadd "${ends[@]}" -d shown -a values
            [[ $kind == store ]] && _files ;;
    esac
}

if [[ $funcstack[1] == _ckpt ]]; then _ckpt "$@"; else compdef _ckpt ckpt; fi
