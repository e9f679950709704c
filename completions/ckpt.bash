# Bash completion of ckpt. Made by completions/generate.py.

_ckpt() {
    local cur word want= cmd= thread= store= config= ns= kind= place=0 line cut
    local -a words before
    COMPREPLY=()
    # COMP_WORDS breaks words at '@' and ':', which thread ids have.
    line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cur=${words[${#words[@]}-1]}
    before=("${words[@]:1:${#words[@]}-2}")
    for word in "${before[@]}"; do
        if [[ -n $want ]]; then
            case $want in
                -s|--store) store=$word ;;
                --config) config=$word ;;
                --ns) ns=$word ;;
            esac
            want=
        elif [[ $word == -* ]]; then
            case "$cmd $word" in
                *" --store="*) store=${word#*=} ;;
                *" --config="*) config=${word#*=} ;;
                *" --ns="*) ns=${word#*=} ;;
                *" -s"|*" --store"|*" --config"|*" -o"|*" --output"|*" --color"|*" --aes-key-file"|*" -n"|*" --limit"|*" --sort"|*" --since"|*" --until"|*" --status"|*" --match"|"threads list --where"|*" --user"|*" --page"|*" --memory"|*" --from"|*" --archive"|*" --sign-key"|*" --at"|*" --ns"|*" --as-of"|*" --channel"|*" --path"|*" --reducer"|*" --older-than"|*" --last"|"grep --where"|*" --jobs"|*" --lines"|*" --interval"|*" --refresh"|*" --thread"|*" --category"|*" --min-confidence"|*" --source"|*" --threads"|*" --namespace"|*" --to"|*" --set"|*" --trusted-key"|"replay --where"|"stats --where"|*" --top"|*" --steps"|*" --to-last"|*" --reason"|*" --append"|*" --replace"|*" --as-node"|"purge --where"|*" --keep-last"|*" --keep-within"|*" --protect"|*" --plan-out"|*" --plan"|*" --max-duration"|*" --batch"|*" --sleep"|*" --scope"|*" --grace"|*" --format"|*" --by") want=$word ;;
            esac
        elif [[ -z $cmd ]]; then
            cmd=$word
        elif [[ $cmd == threads ]]; then
            cmd="threads $word"
        elif [[ $cmd == sessions ]]; then
            cmd="sessions $word"
        elif [[ $cmd == memory ]]; then
            cmd="memory $word"
        else
            [[ $place == 0 ]] && thread=$word
            place=$((place + 1))
        fi
    done
    if [[ -n $want ]]; then
        case $want in
            -s) kind="store" ;;
            --store) kind="store" ;;
            --config) kind="file" ;;
            -o) kind="words:auto table json ndjson tsv" ;;
            --output) kind="words:auto table json ndjson tsv" ;;
            --color) kind="words:auto always never" ;;
            --sort) kind="words:last first id checkpoints namespaces step bytes" ;;
            --status) kind="words:error interrupted pending done unknown empty" ;;
            --memory) kind="store" ;;
            --at) kind="ref" ;;
            --ns) kind="ns" ;;
            --channel) kind="channel" ;;
            --threads) kind="store" ;;
            --to-last) kind="words:error interrupted pending done unknown" ;;
            --by) kind="words:thread channel ns type table" ;;
        esac
    elif [[ $cur == -* ]]; then
        case $cmd in
            "threads list") kind="words:-n --limit --all --long --sort --since --until --status --match --where --user --first-message --page --exit-code" ;;
            "threads show") kind="words:--memory" ;;
            "threads copy") kind="words:--dry-run --yes" ;;
            "threads delete") kind="words:--from --match --archive --sign-key --memory --dry-run --yes" ;;
            show) kind="words:--at --ns --as-of --channel --path --writes --metadata --raw --where --tree --unfold --all-ns --mermaid --ascii" ;;
            history) kind="words:--ns --all-ns -n --limit --messages" ;;
            diff) kind="words:--ns --channel --stat --writes --reducer --exit-code" ;;
            interrupts) kind="words:--match --older-than --exit-code" ;;
            messages) kind="words:--at --ns --channel --last --full --stat" ;;
            grep) kind="words:-i --ignore-case -F --fixed-strings --match --where --channel --ns --head-only -n --limit --jobs" ;;
            blame) kind="words:--at --ns" ;;
            tail) kind="words:-n --lines --ns --all-ns --interval" ;;
            tui) kind="words:--refresh --write" ;;
            "sessions list") kind="words:--thread --user" ;;
            "memory list") kind="words:--flat -n --limit --all --match --since --until --expired --category --min-confidence --source --duplicates --orphans --threads" ;;
            "memory show") kind="words:--namespace --raw --threads" ;;
            "memory search") kind="words:--namespace -E --regex -i --ignore-case -n --limit" ;;
            "memory export") kind="words:--namespace --match --to" ;;
            "memory edit") kind="words:--set --namespace --write" ;;
            "memory delete") kind="words:--namespace --match --expired --older-than --all -n --limit --archive --sign-key --dry-run --yes --write" ;;
            "memory import") kind="words:--trusted-key --allow-pickle --dry-run --yes --write" ;;
            replay) kind="words:--at --ns --verify --strict --all --match --where --jobs --reducer --repair --dry-run --yes" ;;
            stats) kind="words:--match --where --ns --since --until --top --jobs" ;;
            rollback) kind="words:--at --steps --to-last --last-good --as-of --sibling --root-only --reason --force --dry-run --yes" ;;
            fork) kind="words:--to --at --as-of --set --append --replace --as-node --reason --force --dry-run --yes" ;;
            undo) kind="words:--force --dry-run --yes" ;;
            purge) kind="words:--older-than --expired --match --where --status --keep-last --keep-within --keep-tips --protect --include-interrupted --include-pending --include-error --archive --sign-key --plan-out --plan --max-duration --batch --sleep --vacuum --memory --dry-run --yes" ;;
            gc) kind="words:--scope --grace --archive --sign-key --batch --dry-run --yes" ;;
            export) kind="words:--format --to --sign-key" ;;
            import) kind="words:--trusted-key --allow-pickle --dry-run --yes" ;;
            du) kind="words:--by --top" ;;
            stores) kind="words:--layouts" ;;
            trust) kind="words:--list --remove" ;;
        esac
        kind="${kind:-words:} -s --store --config -o --output --color --aes-key-file --redact --copy --no-pager --utc -q --quiet -v --verbose --debug --version --help"
    elif [[ -z $cmd ]]; then
        kind="words:threads show history diff interrupts messages grep blame tail tui sessions memory replay stats rollback fork undo purge gc export import du stores trust demo"
    else
        case "$cmd:$place" in
            "threads:0") kind="words:list show copy delete" ;;
            "sessions:0") kind="words:list show" ;;
            "memory:0") kind="words:list show search export edit delete import" ;;
            "threads show:0") kind=thread ;;
            "threads copy:0") kind=thread ;;
            "show:0") kind=target ;;
            "show:1") kind=ref ;;
            "history:0") kind=thread ;;
            "diff:0") kind=target ;;
            "diff:1") kind=ref ;;
            "diff:2") kind=ref ;;
            "messages:0") kind=target ;;
            "blame:0") kind=target ;;
            "blame:1") kind=channel ;;
            "tail:0") kind=thread ;;
            "replay:0") kind=target ;;
            "stats:0") kind=thread ;;
            "rollback:0") kind=target ;;
            "rollback:1") kind=ref ;;
            "fork:0") kind=target ;;
            "fork:1") kind=ref ;;
            "undo:0") kind=thread ;;
            "du:0") kind=thread ;;
            "demo:0") kind=file ;;
        esac
    fi
    case $kind in
        "") return ;;
        file)
            compopt -o filenames 2>/dev/null
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
            return ;;
        words:*)
            while IFS= read -r word; do COMPREPLY+=("$word"); done \
                < <(compgen -W "${kind#words:}" -- "$cur") ;;
        *)
            while IFS=$'\t' read -r word _; do
                printf -v word %q "$word"
                COMPREPLY+=("$word")
            done < <("${words[0]/#\~/$HOME}" _complete "$kind" "${cur//\\/}" "$store" "$config" \
                "${thread//\\/}" "$ns" 2>/dev/null)
            if [[ $kind == store ]]; then
                compopt -o filenames 2>/dev/null
                while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
                # A URL goes on behind its scheme.
                [[ ${COMPREPLY[0]-} == *:// ]] && compopt -o nospace 2>/dev/null
            fi ;;
    esac
    # Readline replaces only what follows the last of its word breaks.
    cut=${cur%"${cur##*[$COMP_WORDBREAKS]}"}
    if [[ -n $cut ]]; then COMPREPLY=("${COMPREPLY[@]#"$cut"}"); fi
}

complete -F _ckpt ckpt
