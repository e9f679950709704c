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
    for word in "${before[@]}"; do
        if [[ -n $want ]]; then
            case $want in
                -s|--store) store=$word ;;
                --config) config=$word ;;
                --ns|--namespace) ns=$word ;;
            esac
            want=
        elif [[ -z $ended && $word == -* ]]; then
            case "$cmd $word" in
                *" --") ended=1 ;;
                *" --store="*) store=${word#*=} ;;
                *" --config="*) config=${word#*=} ;;
                *" --ns="*|*" --namespace="*) ns=${word#*=} ;;
                *" -s"|*" --store"|*" --config"|*" -o"|*" --output"|*" --color"|*" --aes-key-file"|*" --reducer"|*" --library"|*" --user-key"|*" --audit"|*" -n"|*" --limit"|*" --sort"|*" --since"|*" --changed-since"|*" --until"|*" --status"|*" --match"|"threads list --where"|*" --user"|*" --page"|*" --interval"|*" --as-of"|*" --compat"|*" --compat-from"|*" --from"|"threads delete --where"|*" --archive"|*" --sign-key"|*" --memory"|*" --plan-out"|*" --at"|*" --ns"|*" --channel"|*" --path"|*" --as"|*" --graph"|*" --last"|"grep --where"|*" --jobs"|*" --cluster"|*" --lines"|"tail --where"|*" --category"|*" --min-confidence"|*" --source"|*" --threads"|*" --namespace"|*" --to"|*" --set"|*" --older-than"|*" --trusted-key"|*" --thread"|*" --refresh"|*" --port"|"interrupts --where"|"compat --where"|*" --fail-on"|*" --accept"|*" --accept-from"|"errors --where"|*" --by"|*" --exec"|"replay --where"|"doctor --where"|*" --grace"|"stats --where"|*" --top"|"du --where"|*" --out"|*" --file"|"sql --where"|*" --attach"|*" --schema"|*" --timeout"|*" --channels"|*" --max-chars"|"rollback --where"|*" --steps"|*" --to-last"|*" --reason"|"fork --where"|*" --append"|"fork --replace"|*" --as-node"|"migrate --where"|*" --rename-node"|*" --rename-channel"|*" --default"|"repair messages --where"|*" --content"|"repair values --where"|"repair writes --where"|*" --new-key-file"|*" --receipt"|*" --batch"|*" --sleep"|*" --max-duration"|*" --action"|*" --head"|"purge --where"|*" --keep-last"|*" --keep-within"|*" --protect"|*" --scope"|"secrets --where"|*" --subject"|"erase --where"|*" --value"|*" --values-from"|*" --memory-namespace"|*" --archives"|"erase --verify"|"rekey --where"|"copy --where"|"export --where"|*" --format"|*" --table"|*" --python") want=$word ;;
            esac
        elif [[ -z $cmd ]]; then
            cmd=$word
        elif [[ $cmd == threads ]]; then
            cmd="threads $word"
        elif [[ $cmd == memory ]]; then
            cmd="memory $word"
        elif [[ $cmd == repair ]]; then
            cmd="repair $word"
        elif [[ $cmd == ops ]]; then
            cmd="ops $word"
        else
            [[ $place == 0 ]] && thread=$word
            place=$((place + 1))
        fi
    done
    if [[ -z $want && -z $ended && $cur == --*=* ]]; then
        want=${cur%%=*} lead=${cur%%=*}= cur=${cur#*=}
    fi
    is_value=$want$ended
    if [[ -n $want ]]; then
        case "$cmd $want" in
            *" -s") kind="store" ;;
            *" --store") kind="store" ;;
            *" --config") kind="file" ;;
            *" -o") kind="words:auto table json ndjson tsv" ;;
            *" --output") kind="words:auto table json ndjson tsv" ;;
            *" --color") kind="words:auto always never" ;;
            *" --aes-key-file") kind="file" ;;
            *" --audit") kind="file" ;;
            *" --sort") kind="words:last first id checkpoints namespaces step bytes" ;;
            *" --status") kind="words:error interrupted pending done unknown empty" ;;
            *" --where") kind="filter" ;;
            "threads delete --from") kind="file" ;;
            *" --archive") kind="file" ;;
            *" --sign-key") kind="file" ;;
            *" --memory") kind="store" ;;
            *" --plan-out") kind="file" ;;
            *" --at") kind="ref" ;;
            *" --ns") kind="ns" ;;
            *" --channel") kind="channel" ;;
            "show --as") kind="words:pytest" ;;
            *" --source") kind="thread" ;;
            *" --threads") kind="store" ;;
            *" --namespace") kind="namespace" ;;
            "memory export --to") kind="file" ;;
            "memory copy --to") kind="store" ;;
            *" --trusted-key") kind="file" ;;
            *" --thread") kind="thread" ;;
            *" --accept-from") kind="file" ;;
            "stats --by") kind="grouping" ;;
            "du --by") kind="words:thread channel ns type table" ;;
            *" --out") kind="file" ;;
            *" --file") kind="file" ;;
            *" --to-last") kind="words:error interrupted pending done unknown" ;;
            "apply --to") kind="store" ;;
            *" --new-key-file") kind="file" ;;
            *" --receipt") kind="file" ;;
            *" --scope") kind="words:blobs writes calls all" ;;
            *" --subject") kind="filter" ;;
            *" --values-from") kind="file" ;;
            *" --archives") kind="file" ;;
            "copy --to") kind="store" ;;
            *" --format") kind="words:bundle jsonl parquet csv ndjson" ;;
            "export --to") kind="file" ;;
            "export --as") kind="words:pytest" ;;
            "import --to") kind="store" ;;
        esac
    elif [[ -z $ended && $cur == -* ]]; then
        case $cmd in
            "threads list") kind="words:-n --limit --all --long --sort --since --changed-since --until --status --match --where --user --first-message --page --watch --interval --exit-code --as-of --compat --compat-from" ;;
            "threads delete") kind="words:--from --match --where --archive --sign-key --memory --plan-out --dry-run --yes" ;;
            show) kind="words:--at --ns --as-of --channel --path --full --writes --metadata --long --memory --raw --where --tree --unfold --all-ns --mermaid --svg --ascii --as --graph" ;;
            history) kind="words:--ns --all-ns -n --limit --messages --as-of" ;;
            diff) kind="words:--ns --channel --stat --writes --exit-code --as-of" ;;
            messages) kind="words:--at --ns --channel --last --full --stat --as-of" ;;
            grep) kind="words:-i --ignore-case -F --fixed-strings --match --where --channel --ns --head-only -n --limit --jobs --cluster --as-of" ;;
            tail) kind="words:-n --lines --match --where --ns --all-ns --interval" ;;
            "memory list") kind="words:--flat -n --limit --all --match --since --until --expired --no-expired --category --min-confidence --source --user --duplicates --orphans --threads" ;;
            "memory show") kind="words:--namespace --raw --threads" ;;
            "memory search") kind="words:--namespace -E --regex -i --ignore-case -n --limit" ;;
            "memory export") kind="words:--namespace --match --to" ;;
            "memory edit") kind="words:--set --namespace --write --plan-out" ;;
            "memory delete") kind="words:--namespace --match --expired --older-than --all -n --limit --archive --sign-key --plan-out --dry-run --yes --write" ;;
            "memory copy") kind="words:--to --namespace --match --create --replace --plan-out --dry-run --yes" ;;
            "memory import") kind="words:--trusted-key --allow-pickle --plan-out --dry-run --yes --write" ;;
            "memory sessions") kind="words:--thread --user" ;;
            tui) kind="words:--refresh --write --serve --port --as-of --compat --compat-from" ;;
            interrupts) kind="words:--match --where --user --older-than --exit-code --as-of" ;;
            compat) kind="words:--from --probe --match --where --user --exit-code --fail-on --accept --accept-from" ;;
            errors) kind="words:--match --where --since --history --by --user -n --limit --summary --exit-code --as-of" ;;
            blame) kind="words:--at --ns --as-of" ;;
            bisect) kind="words:--exec --binary --since --until --at --ns --as-of" ;;
            replay) kind="words:--at --ns --all-steps --verify --strict --all --match --where --jobs --cluster --repair --plan-out --dry-run --yes" ;;
            doctor) kind="words:--match --where --deep --types --strict --grace --summary --jobs --cluster" ;;
            report) kind="words:--at --ns --all-ns --since --last --as-of" ;;
            stats) kind="words:--by --match --where --user --ns --since --until --top --jobs --cluster --as-of" ;;
            timeline) kind="words:--at --ns --as-of --since --last --ascii" ;;
            du) kind="words:--match --where --by --top" ;;
            metrics) kind="words:--since --fast --by-user --out" ;;
            sql) kind="words:--file --thread --match --where --attach --interactive --tables --schema --timeout --jobs --cluster --as-of" ;;
            mcp) kind="words:--values --channels --max-chars --timeout" ;;
            rollback) kind="words:--match --where --at --steps --to-last --last-good --reopen --as-of --sibling --root-only --reason --force --plan-out --dry-run --yes" ;;
            fork) kind="words:--match --where --at --as-of --set --append --replace --as-node --as --reason --force --plan-out --dry-run --yes" ;;
            migrate) kind="words:--match --where --all --to --from --rename-node --rename-channel --default --accept --accept-from --reason --force --plan-out --dry-run --yes" ;;
            "repair messages") kind="words:--at --match --where --all --content --reason --force --plan-out --dry-run --yes" ;;
            "repair values") kind="words:--at --match --where --all --reason --force --plan-out --dry-run --yes" ;;
            "repair writes") kind="words:--at --match --where --all --reason --force --plan-out --dry-run --yes" ;;
            undo) kind="words:--force --plan-out --dry-run --yes" ;;
            redo) kind="words:--plan-out --dry-run --yes" ;;
            apply) kind="words:--to --new-key-file --sign-key --trusted-key --allow-pickle --memory --receipt --archive --batch --sleep --max-duration --vacuum --skip-changed --summary --dry-run --yes" ;;
            "ops list") kind="words:-n --limit --all --thread --action" ;;
            "ops verify") kind="words:--head" ;;
            purge) kind="words:--older-than --expired --match --where --status --keep-last --keep-within --keep-tips --protect --include-interrupted --include-pending --include-error --archive --sign-key --plan-out --max-duration --batch --sleep --vacuum --memory --summary --dry-run --yes" ;;
            gc) kind="words:--scope --grace --archive --sign-key --plan-out --batch --dry-run --yes" ;;
            secrets) kind="words:--match --where --memory --kinds --jobs --cluster" ;;
            erase) kind="words:--subject --where --match --value --values-from --ns --memory --memory-namespace --archives --rewrite --receipt --verify --no-mentions --plan-out --dry-run --yes" ;;
            rekey) kind="words:--match --where --all --new-key-file --encrypt --decrypt --vacuum --plan-out --dry-run --yes" ;;
            copy) kind="words:--to --as --match --where --all --at --as-of --create --replace --new-key-file --encrypt --decrypt --jobs --reason --plan-out --dry-run --yes" ;;
            export) kind="words:--match --where --all --format --to --sign-key --table --jobs --cluster --as-of --as --graph --check --python --mask-secrets --force" ;;
            import) kind="words:--to --create --trusted-key --allow-pickle --plan-out --dry-run --yes" ;;
            stores) kind="words:--layouts" ;;
            trust) kind="words:--list --remove --yes" ;;
            completion) kind="words:--install" ;;
        esac
        kind="${kind:-words:} -s --store --config -o --output --color --aes-key-file --reducer --library --user-key --redact --audit --copy --no-pager --utc -q --quiet -v --verbose --debug --version --help"
    elif [[ -z $cmd ]]; then
        kind="words:threads show history diff messages grep tail memory tui interrupts compat errors blame bisect replay doctor report stats timeline du metrics sql mcp rollback fork migrate repair undo redo apply ops purge gc secrets erase rekey copy export import stores trust completion demo"
    else
        case "$cmd:$place" in
            "threads:0") kind="words:list delete" ;;
            "memory:0") kind="words:list show search export edit delete copy import sessions" ;;
            "repair:0") kind="words:messages values writes" ;;
            "ops:0") kind="words:list show verify" ;;
            "threads delete:"*) kind="thread" ;;
            "show:0") kind="target" ;;
            "show:1") kind="ref" ;;
            "history:0") kind="thread" ;;
            "diff:0") kind="target" ;;
            "diff:1") kind="ref" ;;
            "diff:2") kind="ref" ;;
            "messages:0") kind="target" ;;
            "grep:"[!0]*) kind="thread" ;;
            "tail:0") kind="thread" ;;
            "memory list:0") kind="namespace" ;;
            "memory show:0") kind="item" ;;
            "memory edit:0") kind="item" ;;
            "memory delete:"*) kind="item" ;;
            "memory import:"*) kind="file" ;;
            "memory sessions:0") kind="session" ;;
            "tui:0") kind="target" ;;
            "interrupts:"*) kind="thread" ;;
            "errors:"*) kind="thread" ;;
            "blame:0") kind="target" ;;
            "blame:1") kind="channel" ;;
            "bisect:0") kind="target" ;;
            "replay:0") kind="target" ;;
            "doctor:"*) kind="thread" ;;
            "report:0") kind="target" ;;
            "stats:0") kind="thread" ;;
            "timeline:0") kind="target" ;;
            "du:0") kind="thread" ;;
            "rollback:0") kind="target" ;;
            "rollback:1") kind="ref" ;;
            "rollback:"[!0]*) kind="target" ;;
            "fork:0") kind="target" ;;
            "fork:1") kind="ref" ;;
            "fork:"[!0]*) kind="target" ;;
            "migrate:"*) kind="thread" ;;
            "repair messages:"*) kind="target" ;;
            "repair values:"*) kind="target" ;;
            "repair writes:"*) kind="target" ;;
            "undo:0") kind="change" ;;
            "redo:0") kind="undone" ;;
            "apply:0") kind="file" ;;
            "ops show:0") kind="op" ;;
            "ops verify:0") kind="file" ;;
            "secrets:"*) kind="thread" ;;
            "erase:"*) kind="thread" ;;
            "rekey:"*) kind="thread" ;;
            "copy:"*) kind="target" ;;
            "export:"*) kind="thread" ;;
            "import:"*) kind="file" ;;
            "trust:0") kind="file" ;;
            "completion:0") kind="words:bash zsh fish" ;;
            "demo:0") kind="file" ;;
        esac
    fi
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
