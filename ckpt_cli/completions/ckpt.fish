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
                case '* -s' '* --store' '* --config' '* -o' '* --output' '* --color' '* --aes-key-file' '* -n' '* --limit' '* --sort' '* --since' '* --until' '* --status' '* --match' 'threads list --where' '* --user' '* --page' '* --memory' '* --from' '* --archive' '* --sign-key' '* --at' '* --ns' '* --as-of' '* --channel' '* --path' '* --reducer' '* --older-than' '* --last' 'grep --where' '* --jobs' '* --lines' '* --interval' '* --refresh' '* --thread' '* --category' '* --min-confidence' '* --source' '* --threads' '* --namespace' '* --to' '* --set' '* --trusted-key' 'replay --where' 'doctor --where' '* --grace' 'stats --where' '* --top' '* --steps' '* --to-last' '* --reason' '* --append' '* --replace' '* --as-node' 'purge --where' '* --keep-last' '* --keep-within' '* --protect' '* --plan-out' '* --plan' '* --max-duration' '* --batch' '* --sleep' '* --scope' '* --format' '* --by'
                    set want $word
            end
        else if test -z "$__ckpt_cmd"
            set -g __ckpt_cmd $word
        else if contains -- $__ckpt_cmd threads sessions memory
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
complete -c ckpt -n '__ckpt_at "" 0' -a threads -d 'List, show, copy or delete threads.'
complete -c ckpt -n '__ckpt_at "threads" 0' -a list -d 'List threads, newest first.'
complete -c ckpt -n '__ckpt_at "threads" 0' -a show -d 'Show what is wrong with a thread, and how to resume it.'
complete -c ckpt -n '__ckpt_at "threads show" 0' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "threads" 0' -a copy -d 'Copy a thread with all its history.'
complete -c ckpt -n '__ckpt_at "threads copy" 0' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "threads" 0' -a delete -d 'Remove threads by id, whatever their status.'
complete -c ckpt -n '__ckpt_at "threads delete" 0 9999' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a show -d 'Show the state at a checkpoint, or the tree of a thread.'
complete -c ckpt -n '__ckpt_at "show" 0' -a '(__ckpt_ask target argument)'
complete -c ckpt -n '__ckpt_at "show" 1' -a '(__ckpt_ask ref argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a history -d 'List a thread\'s checkpoints, newest first.'
complete -c ckpt -n '__ckpt_at "history" 0' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a diff -d 'Show what changed between two checkpoints.'
complete -c ckpt -n '__ckpt_at "diff" 0' -a '(__ckpt_ask target argument)'
complete -c ckpt -n '__ckpt_at "diff" 1' -a '(__ckpt_ask ref argument)'
complete -c ckpt -n '__ckpt_at "diff" 2' -a '(__ckpt_ask ref argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a interrupts -d 'List the questions that wait for an answer.'
complete -c ckpt -n '__ckpt_at "interrupts" 0 9999' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a messages -d 'Print the conversation of a thread.'
complete -c ckpt -n '__ckpt_at "messages" 0' -a '(__ckpt_ask target argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a grep -d 'Search threads for a text.'
complete -c ckpt -n '__ckpt_at "grep" 1 9999' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a blame -d 'Show which step and task set a value.'
complete -c ckpt -n '__ckpt_at "blame" 0' -a '(__ckpt_ask target argument)'
complete -c ckpt -n '__ckpt_at "blame" 1' -a '(__ckpt_ask channel argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a tail -d 'Print new checkpoints of a thread as they are saved.'
complete -c ckpt -n '__ckpt_at "tail" 0' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a tui -d 'Browse threads, checkpoints and long-term memory in the terminal.'
complete -c ckpt -n '__ckpt_at "" 0' -a sessions -d 'List or show an application\'s sessions.'
complete -c ckpt -n '__ckpt_at "sessions" 0' -a list -d 'List the sessions of an application, newest first.'
complete -c ckpt -n '__ckpt_at "sessions" 0' -a show -d 'Show one session and the status of its thread.'
complete -c ckpt -n '__ckpt_at "sessions show" 0' -a '(__ckpt_ask session argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a memory -d 'List, search, edit or delete long-term memory.'
complete -c ckpt -n '__ckpt_at "memory" 0' -a list -d 'List items by namespace, without values.'
complete -c ckpt -n '__ckpt_at "memory list" 0' -a '(__ckpt_ask namespace argument)'
complete -c ckpt -n '__ckpt_at "memory" 0' -a show -d 'Show one item with its value, or all items.'
complete -c ckpt -n '__ckpt_at "memory show" 0' -a '(__ckpt_ask item argument)'
complete -c ckpt -n '__ckpt_at "memory" 0' -a search -d 'Search namespaces, keys and values.'
complete -c ckpt -n '__ckpt_at "memory" 0' -a export -d 'Export items with their values as JSON.'
complete -c ckpt -n '__ckpt_at "memory" 0' -a edit -d 'Edit a fact or a section of DeerFlow\'s memory.'
complete -c ckpt -n '__ckpt_at "memory edit" 0' -a '(__ckpt_ask item argument)'
complete -c ckpt -n '__ckpt_at "memory" 0' -a delete -d 'Delete items and their vectors.'
complete -c ckpt -n '__ckpt_at "memory delete" 0 9999' -a '(__ckpt_ask item argument)'
complete -c ckpt -n '__ckpt_at "memory" 0' -a import -d 'Restore archived items.'
complete -c ckpt -n '__ckpt_at "memory import" 0 9999' -F
complete -c ckpt -n '__ckpt_at "" 0' -a replay -d 'Verify checkpoints against recorded writes.'
complete -c ckpt -n '__ckpt_at "replay" 0' -a '(__ckpt_ask target argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a doctor -d 'Check threads for damage and other faults.'
complete -c ckpt -n '__ckpt_at "doctor" 0 9999' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a stats -d 'Show how much each node writes to each channel.'
complete -c ckpt -n '__ckpt_at "stats" 0' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a rollback -d 'Roll a thread back to an earlier checkpoint.'
complete -c ckpt -n '__ckpt_at "rollback" 0' -a '(__ckpt_ask target argument)'
complete -c ckpt -n '__ckpt_at "rollback" 1' -a '(__ckpt_ask ref argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a fork -d 'Fork a branch or a new thread from a checkpoint.'
complete -c ckpt -n '__ckpt_at "fork" 0' -a '(__ckpt_ask target argument)'
complete -c ckpt -n '__ckpt_at "fork" 1' -a '(__ckpt_ask ref argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a undo -d 'Undo the last rollback or fork of a thread.'
complete -c ckpt -n '__ckpt_at "undo" 0' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a purge -d 'Remove old threads, or prune old checkpoints inside them.'
complete -c ckpt -n '__ckpt_at "" 0' -a gc -d 'Delete orphaned rows.'
complete -c ckpt -n '__ckpt_at "" 0' -a export -d 'Write threads to archive files, or as JSON.'
complete -c ckpt -n '__ckpt_at "export" 0 9999' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a import -d 'Restore archived threads, row for row.'
complete -c ckpt -n '__ckpt_at "import" 0 9999' -F
complete -c ckpt -n '__ckpt_at "" 0' -a du -d 'Show disk usage by thread, channel and type.'
complete -c ckpt -n '__ckpt_at "du" 0' -a '(__ckpt_ask thread argument)'
complete -c ckpt -n '__ckpt_at "" 0' -a stores -d 'List stores with their layout, size and saver.'
complete -c ckpt -n '__ckpt_at "" 0' -a trust -d 'Show what a configuration file would do, and trust it.'
complete -c ckpt -n '__ckpt_at "trust" 0' -F
complete -c ckpt -n '__ckpt_at "" 0' -a completion -d 'Print or install the completion script of a shell.'
complete -c ckpt -n '__ckpt_at "completion" 0' -a 'bash zsh fish'
complete -c ckpt -n '__ckpt_at "" 0' -a demo -d 'Create a small sample store.'
complete -c ckpt -n '__ckpt_at "demo" 0' -F
complete -c ckpt -s s -l store -r -a '(__ckpt_ask store)' -F -d 'SQLite file, store URL or profile [env: CKPT_STORE].'
complete -c ckpt -l config -r -F -d 'Read profiles from this file.'
complete -c ckpt -s o -l output -x -a 'auto table json ndjson tsv' -d 'auto, table, json, ndjson or tsv. [default: table on a terminal, TSV in a pipe]'
complete -c ckpt -l color -x -a 'auto always never' -d 'auto, always or never [env: NO_COLOR].'
complete -c ckpt -l aes-key-file -r -F -d 'Decrypt values with the key in this file [env: LANGGRAPH_AES_KEY].'
complete -c ckpt -l redact -d 'Show the type and size of values instead of the values.'
complete -c ckpt -l copy -d 'Read a private copy of a SQLite file and its log.'
complete -c ckpt -l no-pager -d 'Do not use a pager.'
complete -c ckpt -l utc -d 'Show times in UTC. [default: local time]'
complete -c ckpt -s q -l quiet -d 'Print no notes on stderr.'
complete -c ckpt -s v -l verbose -d 'Print on stderr which store was opened.'
complete -c ckpt -l debug -d 'Print the traceback of an error.'
complete -c ckpt -l version -d 'Print the version and exit.'
complete -c ckpt -l help -d 'Show this message and exit.'
complete -c ckpt -n '__ckpt_in "threads list"' -s n -l limit -x -d 'Show at most N.'
complete -c ckpt -n '__ckpt_in "threads list"' -l all -d 'Show all threads, without their status.'
complete -c ckpt -n '__ckpt_in "threads list"' -l long -d 'Show status, size and error, also with --all.'
complete -c ckpt -n '__ckpt_in "threads list"' -l sort -x -a 'last first id checkpoints namespaces step bytes' -d 'Sort by last, first, id, checkpoints, namespaces, step, bytes.'
complete -c ckpt -n '__ckpt_in "threads list"' -l since -x -d 'Only threads active since TIME: 2h, 2026-04-07.'
complete -c ckpt -n '__ckpt_in "threads list"' -l until -x -d 'Only threads last active before TIME.'
complete -c ckpt -n '__ckpt_in "threads list"' -l status -x -a 'error interrupted pending done unknown empty' -d 'Only threads that are error, interrupted, pending, done, unknown, empty; repeatable.'
complete -c ckpt -n '__ckpt_in "threads list"' -l match -x -d 'Only thread ids matching GLOB, such as \'user-*\'.'
complete -c ckpt -n '__ckpt_in "threads list"' -l where -x -d 'Only threads that match FILTER, such as \'idle > 2h and metadata.user = anna\'; repeatable.'
complete -c ckpt -n '__ckpt_in "threads list"' -l user -x -d 'Only threads of this user, in stores that record users.'
complete -c ckpt -n '__ckpt_in "threads list"' -l first-message -d 'Show the first message by a human.'
complete -c ckpt -n '__ckpt_in "threads list"' -l page -x -d 'Page number.'
complete -c ckpt -n '__ckpt_in "threads list"' -l exit-code -d 'Exit with 1 if anything is found.'
complete -c ckpt -n '__ckpt_in "threads show"' -l memory -r -a '(__ckpt_ask store)' -F -d 'Long-term memory of these threads. [default: from the profile or DeerFlow]'
complete -c ckpt -n '__ckpt_in "threads copy"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "threads copy"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l from -r -F -d 'Also read ids from FILE, one per line; - is stdin.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l match -x -d 'Also thread ids matching GLOB.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l archive -r -F -d 'Archive each thread in DIR before removing it.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l sign-key -r -F -d 'Sign archives with this Ed25519 private key.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l memory -r -a '(__ckpt_ask store)' -F -d 'Long-term memory of these threads. [default: from the profile or DeerFlow]'
complete -c ckpt -n '__ckpt_in "threads delete"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "show"' -l at -x -a '(__ckpt_ask ref)' -d 'Checkpoint; use it if the thread id contains \'@\'.'
complete -c ckpt -n '__ckpt_in "show"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace. [default: the root]'
complete -c ckpt -n '__ckpt_in "show"' -l as-of -x -d 'The head at TIME, such as 2h, yesterday or 2026-04-07.'
complete -c ckpt -n '__ckpt_in "show"' -l channel -x -a '(__ckpt_ask channel)' -d 'Only this channel; repeatable.'
complete -c ckpt -n '__ckpt_in "show"' -l path -x -d 'Show one part of the state, such as \'messages[-1].content\'.'
complete -c ckpt -n '__ckpt_in "show"' -l writes -d 'Also show what the tasks of its next step wrote.'
complete -c ckpt -n '__ckpt_in "show"' -l metadata -d 'Also show the metadata of the checkpoint.'
complete -c ckpt -n '__ckpt_in "show"' -l raw -d 'Print the stored bytes of the checkpoint, undecoded.'
complete -c ckpt -n '__ckpt_in "show"' -l where -d 'Print the queries that find it in the store.'
complete -c ckpt -n '__ckpt_in "show"' -l tree -d 'Draw the checkpoints of the thread as a tree.'
complete -c ckpt -n '__ckpt_in "show"' -l unfold -d 'Show every step, also plain ones.'
complete -c ckpt -n '__ckpt_in "show"' -l all-ns -d 'Also draw the tree of each subgraph call.'
complete -c ckpt -n '__ckpt_in "show"' -l mermaid -d 'Print the tree as a Mermaid flowchart.'
complete -c ckpt -n '__ckpt_in "show"' -l ascii -d 'Draw the tree with ASCII characters only.'
complete -c ckpt -n '__ckpt_in "history"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace. [default: the root]'
complete -c ckpt -n '__ckpt_in "history"' -l all-ns -d 'List all namespaces.'
complete -c ckpt -n '__ckpt_in "history"' -s n -l limit -x -d 'Show at most N. [default: all]'
complete -c ckpt -n '__ckpt_in "history"' -l messages -d 'Add the conversation at each checkpoint, in JSON.'
complete -c ckpt -n '__ckpt_in "diff"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace. [default: the root]'
complete -c ckpt -n '__ckpt_in "diff"' -l channel -x -a '(__ckpt_ask channel)' -d 'Only this channel; repeatable.'
complete -c ckpt -n '__ckpt_in "diff"' -l stat -d 'Show one line per channel, with sizes.'
complete -c ckpt -n '__ckpt_in "diff"' -l writes -d 'Show what each task wrote to make this checkpoint.'
complete -c ckpt -n '__ckpt_in "diff"' -l reducer -x -d 'With --writes: reducer of CHANNEL, not inferred; repeatable.'
complete -c ckpt -n '__ckpt_in "diff"' -l exit-code -d 'Exit with 1 if anything is found.'
complete -c ckpt -n '__ckpt_in "interrupts"' -l match -x -d 'Only thread ids matching GLOB, such as \'user-*\'.'
complete -c ckpt -n '__ckpt_in "interrupts"' -l older-than -x -d 'Only questions older than AGE: 2h, 30d or a date.'
complete -c ckpt -n '__ckpt_in "interrupts"' -l exit-code -d 'Exit with 1 if anything is found.'
complete -c ckpt -n '__ckpt_in "messages"' -l at -x -a '(__ckpt_ask ref)' -d 'Checkpoint; use it if the thread id contains \'@\'.'
complete -c ckpt -n '__ckpt_in "messages"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace. [default: the root]'
complete -c ckpt -n '__ckpt_in "messages"' -l channel -x -a '(__ckpt_ask channel)' -d 'Channel with the messages. [default: messages, else the one with the most]'
complete -c ckpt -n '__ckpt_in "messages"' -l last -x -d 'Print the last N messages.'
complete -c ckpt -n '__ckpt_in "messages"' -l full -d 'Print all fields of each message, uncut.'
complete -c ckpt -n '__ckpt_in "messages"' -l stat -d 'Count messages, tokens and tool calls.'
complete -c ckpt -n '__ckpt_in "grep"' -s i -l ignore-case -d 'Ignore upper and lower case.'
complete -c ckpt -n '__ckpt_in "grep"' -s F -l fixed-strings -d 'PATTERN is plain text, not an expression.'
complete -c ckpt -n '__ckpt_in "grep"' -l match -x -d 'Only thread ids matching GLOB, such as \'user-*\'.'
complete -c ckpt -n '__ckpt_in "grep"' -l where -x -d 'Only threads with this metadata at the head; repeatable.'
complete -c ckpt -n '__ckpt_in "grep"' -l channel -x -a '(__ckpt_ask channel)' -d 'Only this channel; repeatable.'
complete -c ckpt -n '__ckpt_in "grep"' -l ns -x -a '(__ckpt_ask ns)' -d 'Only this namespace; \'\' is the root.'
complete -c ckpt -n '__ckpt_in "grep"' -l head-only -d 'Search only the newest checkpoints.'
complete -c ckpt -n '__ckpt_in "grep"' -s n -l limit -x -d 'Show at most N.'
complete -c ckpt -n '__ckpt_in "grep"' -l jobs -x -d 'Use N processes.'
complete -c ckpt -n '__ckpt_in "blame"' -l at -x -a '(__ckpt_ask ref)' -d 'Checkpoint; use it if the thread id contains \'@\'.'
complete -c ckpt -n '__ckpt_in "blame"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace. [default: the root]'
complete -c ckpt -n '__ckpt_in "tail"' -s n -l lines -x -d 'Begin with the last N checkpoints.'
complete -c ckpt -n '__ckpt_in "tail"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace. [default: the root]'
complete -c ckpt -n '__ckpt_in "tail"' -l all-ns -d 'Follow all namespaces.'
complete -c ckpt -n '__ckpt_in "tail"' -l interval -x -d 'Look for new checkpoints every SECONDS.'
complete -c ckpt -n '__ckpt_in "tui"' -l refresh -x -d 'Refresh every SECONDS; 0: only on r.'
complete -c ckpt -n '__ckpt_in "tui"' -l write -d 'Enable the keys that change the store.'
complete -c ckpt -n '__ckpt_in "sessions list"' -l thread -x -a '(__ckpt_ask thread)' -d 'Only sessions of this thread.'
complete -c ckpt -n '__ckpt_in "sessions list"' -l user -x -d 'Only sessions of this user.'
complete -c ckpt -n '__ckpt_in "memory list"' -l flat -d 'Show a table, not a tree.'
complete -c ckpt -n '__ckpt_in "memory list"' -s n -l limit -x -d 'Show at most N.'
complete -c ckpt -n '__ckpt_in "memory list"' -l all -d 'Show all.'
complete -c ckpt -n '__ckpt_in "memory list"' -l match -x -d 'Only keys matching GLOB, such as \'fact-*\'.'
complete -c ckpt -n '__ckpt_in "memory list"' -l since -x -d 'Only items updated since TIME: 2h, 2026-04-07.'
complete -c ckpt -n '__ckpt_in "memory list"' -l until -x -d 'Only items not updated after TIME.'
complete -c ckpt -n '__ckpt_in "memory list"' -l expired -l no-expired -d 'Only expired items, or only others.'
complete -c ckpt -n '__ckpt_in "memory list"' -l category -x -d 'Only facts of this category.'
complete -c ckpt -n '__ckpt_in "memory list"' -l min-confidence -x -d 'Only facts with a confidence of at least F.'
complete -c ckpt -n '__ckpt_in "memory list"' -l source -x -a '(__ckpt_ask thread)' -d 'Only items that came from THREAD.'
complete -c ckpt -n '__ckpt_in "memory list"' -l duplicates -d 'Only facts that repeat an older fact.'
complete -c ckpt -n '__ckpt_in "memory list"' -l orphans -d 'Only facts from threads that no longer exist.'
complete -c ckpt -n '__ckpt_in "memory list"' -l threads -r -a '(__ckpt_ask store)' -F -d 'Store of the threads of this memory. [default: from the profile or DeerFlow]'
complete -c ckpt -n '__ckpt_in "memory show"' -l namespace -x -a '(__ckpt_ask namespace)' -d 'Only in NAMESPACE and below it, such as users/anna.'
complete -c ckpt -n '__ckpt_in "memory show"' -l raw -d 'Print the stored bytes of the value.'
complete -c ckpt -n '__ckpt_in "memory show"' -l threads -r -a '(__ckpt_ask store)' -F -d 'Store of the threads of this memory. [default: from the profile or DeerFlow]'
complete -c ckpt -n '__ckpt_in "memory search"' -l namespace -x -a '(__ckpt_ask namespace)' -d 'Only in NAMESPACE and below it, such as users/anna.'
complete -c ckpt -n '__ckpt_in "memory search"' -s E -l regex -d 'TEXT is a Python regular expression.'
complete -c ckpt -n '__ckpt_in "memory search"' -s i -l ignore-case -d 'Ignore case.'
complete -c ckpt -n '__ckpt_in "memory search"' -s n -l limit -x -d 'Stop after N matching lines.'
complete -c ckpt -n '__ckpt_in "memory export"' -l namespace -x -a '(__ckpt_ask namespace)' -d 'Only in NAMESPACE and below it, such as users/anna.'
complete -c ckpt -n '__ckpt_in "memory export"' -l match -x -d 'Only keys matching GLOB, such as \'fact-*\'.'
complete -c ckpt -n '__ckpt_in "memory export"' -l to -r -F -d 'Write to FILE, replacing it.'
complete -c ckpt -n '__ckpt_in "memory edit"' -l set -x -d 'Set a field; repeatable.'
complete -c ckpt -n '__ckpt_in "memory edit"' -l namespace -x -a '(__ckpt_ask namespace)' -d 'Only in NAMESPACE and below it, such as users/anna.'
complete -c ckpt -n '__ckpt_in "memory edit"' -l write -d 'Write the change. [default: only show it]'
complete -c ckpt -n '__ckpt_in "memory delete"' -l namespace -x -a '(__ckpt_ask namespace)' -d 'Only in NAMESPACE and below it, such as users/anna.'
complete -c ckpt -n '__ckpt_in "memory delete"' -l match -x -d 'Only keys matching GLOB, such as \'fact-*\'.'
complete -c ckpt -n '__ckpt_in "memory delete"' -l expired -d 'Select expired items.'
complete -c ckpt -n '__ckpt_in "memory delete"' -l older-than -x -d 'Select items not updated for AGE: 30d, 2h or a date.'
complete -c ckpt -n '__ckpt_in "memory delete"' -l all -d 'Select all items of --namespace.'
complete -c ckpt -n '__ckpt_in "memory delete"' -s n -l limit -x -d 'Delete at most N.'
complete -c ckpt -n '__ckpt_in "memory delete"' -l archive -r -F -d 'Archive the items in DIR first.'
complete -c ckpt -n '__ckpt_in "memory delete"' -l sign-key -r -F -d 'Sign archives with this Ed25519 private key.'
complete -c ckpt -n '__ckpt_in "memory delete"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "memory delete"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "memory delete"' -l write -d 'Write to memory.json even though DeerFlow may overwrite it.'
complete -c ckpt -n '__ckpt_in "memory import"' -l trusted-key -r -F -d 'Only archives signed by a public key in FILE; repeatable.'
complete -c ckpt -n '__ckpt_in "memory import"' -l allow-pickle -d 'Also restore pickles, which run code when loaded.'
complete -c ckpt -n '__ckpt_in "memory import"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "memory import"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "memory import"' -l write -d 'Write to memory.json even though DeerFlow may overwrite it.'
complete -c ckpt -n '__ckpt_in "replay"' -l at -x -a '(__ckpt_ask ref)' -d 'Checkpoint; use it if the thread id contains \'@\'.'
complete -c ckpt -n '__ckpt_in "replay"' -l ns -x -a '(__ckpt_ask ns)' -d 'Only this namespace; \'\' is the root.'
complete -c ckpt -n '__ckpt_in "replay"' -l verify -d 'Print a summary; exit 1 on any mismatch.'
complete -c ckpt -n '__ckpt_in "replay"' -l strict -d 'As --verify; exit 1 also if anything cannot be verified.'
complete -c ckpt -n '__ckpt_in "replay"' -l all -d 'Replay all threads.'
complete -c ckpt -n '__ckpt_in "replay"' -l match -x -d 'Only thread ids matching GLOB, such as \'user-*\'.'
complete -c ckpt -n '__ckpt_in "replay"' -l where -x -d 'Only threads with this metadata at the head; repeatable.'
complete -c ckpt -n '__ckpt_in "replay"' -l jobs -x -d 'Use N processes.'
complete -c ckpt -n '__ckpt_in "replay"' -l reducer -x -d 'Reducer of a channel, instead of inferring it; repeatable.'
complete -c ckpt -n '__ckpt_in "replay"' -l repair -d 'Restore values that are missing or unreadable.'
complete -c ckpt -n '__ckpt_in "replay"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "replay"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "doctor"' -l match -x -d 'Only thread ids matching GLOB, such as \'user-*\'.'
complete -c ckpt -n '__ckpt_in "doctor"' -l where -x -d 'Only threads that match, such as \'status = error\'; repeatable.'
complete -c ckpt -n '__ckpt_in "doctor"' -l deep -d 'Decode every value and replay every step.'
complete -c ckpt -n '__ckpt_in "doctor"' -l types -d 'Read every value, and list the classes that LANGGRAPH_STRICT_MSGPACK blocks.'
complete -c ckpt -n '__ckpt_in "doctor"' -l strict -d 'Exit with 1 also if there is a warning.'
complete -c ckpt -n '__ckpt_in "doctor"' -l grace -x -d 'Do not report what an agent may have written within AGE.'
complete -c ckpt -n '__ckpt_in "doctor"' -l jobs -x -d 'Use N processes.'
complete -c ckpt -n '__ckpt_in "stats"' -l match -x -d 'Only thread ids matching GLOB, such as \'user-*\'.'
complete -c ckpt -n '__ckpt_in "stats"' -l where -x -d 'Only threads with this metadata at the head; repeatable.'
complete -c ckpt -n '__ckpt_in "stats"' -l ns -x -a '(__ckpt_ask ns)' -d 'With THREAD: only this namespace; \'\' is the root.'
complete -c ckpt -n '__ckpt_in "stats"' -l since -x -d 'Only checkpoints from TIME on: 2h, 2026-04-07.'
complete -c ckpt -n '__ckpt_in "stats"' -l until -x -d 'Only checkpoints up to TIME.'
complete -c ckpt -n '__ckpt_in "stats"' -l top -x -d 'Show the N largest.'
complete -c ckpt -n '__ckpt_in "stats"' -l jobs -x -d 'Use N processes.'
complete -c ckpt -n '__ckpt_in "rollback"' -l at -x -a '(__ckpt_ask ref)' -d 'Checkpoint; use it if the thread id contains \'@\'.'
complete -c ckpt -n '__ckpt_in "rollback"' -l steps -x -d 'Go N steps back.'
complete -c ckpt -n '__ckpt_in "rollback"' -l to-last -x -a 'error interrupted pending done unknown' -d 'Newest earlier checkpoint with this status.'
complete -c ckpt -n '__ckpt_in "rollback"' -l last-good -d 'Input of the newest step that failed.'
complete -c ckpt -n '__ckpt_in "rollback"' -l as-of -x -d 'The head at TIME, such as 2h, yesterday or 2026-04-07.'
complete -c ckpt -n '__ckpt_in "rollback"' -l sibling -d 'Add the copy as a sibling of the checkpoint, not a child.'
complete -c ckpt -n '__ckpt_in "rollback"' -l root-only -d 'Leave the state of stateful subgraphs as it is.'
complete -c ckpt -n '__ckpt_in "rollback"' -l reason -x -d 'Record TEXT in the new metadata.'
complete -c ckpt -n '__ckpt_in "rollback"' -l force -d 'Proceed even if the newest checkpoint is dated in the future.'
complete -c ckpt -n '__ckpt_in "rollback"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "rollback"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "fork"' -l to -x -d 'Fork to a new thread with the id NEW.'
complete -c ckpt -n '__ckpt_in "fork"' -l at -x -a '(__ckpt_ask ref)' -d 'Checkpoint; use it if the thread id contains \'@\'.'
complete -c ckpt -n '__ckpt_in "fork"' -l as-of -x -d 'The head at TIME, such as 2h, yesterday or 2026-04-07.'
complete -c ckpt -n '__ckpt_in "fork"' -l set -x -d 'Merge a value with the channel\'s reducer; repeatable.'
complete -c ckpt -n '__ckpt_in "fork"' -l append -x -d 'Append an item to a list; repeatable.'
complete -c ckpt -n '__ckpt_in "fork"' -l replace -x -d 'Replace the stored value; repeatable.'
complete -c ckpt -n '__ckpt_in "fork"' -l as-node -x -d 'Continue as if NODE had just run.'
complete -c ckpt -n '__ckpt_in "fork"' -l reason -x -d 'Record TEXT in the new metadata.'
complete -c ckpt -n '__ckpt_in "fork"' -l force -d 'Proceed even if the newest checkpoint is dated in the future.'
complete -c ckpt -n '__ckpt_in "fork"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "fork"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "undo"' -l force -d 'Proceed even if the newest checkpoint is dated in the future.'
complete -c ckpt -n '__ckpt_in "undo"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "undo"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "purge"' -l older-than -x -d 'Only threads idle for AGE, such as 30d.'
complete -c ckpt -n '__ckpt_in "purge"' -l expired -d 'Only threads past the profile\'s retention.'
complete -c ckpt -n '__ckpt_in "purge"' -l match -x -d 'Only thread ids matching GLOB, such as \'user-*\'.'
complete -c ckpt -n '__ckpt_in "purge"' -l where -x -d 'Only threads with this metadata at the head; repeatable.'
complete -c ckpt -n '__ckpt_in "purge"' -l status -x -a 'error interrupted pending done unknown empty' -d 'Only threads with this status: error, interrupted, pending, done, unknown, empty; repeatable.'
complete -c ckpt -n '__ckpt_in "purge"' -l keep-last -x -d 'Prune: keep the newest N.'
complete -c ckpt -n '__ckpt_in "purge"' -l keep-within -x -d 'Prune: keep what is younger than AGE.'
complete -c ckpt -n '__ckpt_in "purge"' -l keep-tips -d 'Prune: keep the tip of each branch.'
complete -c ckpt -n '__ckpt_in "purge"' -l protect -x -d 'Never touch these threads; repeatable.'
complete -c ckpt -n '__ckpt_in "purge"' -l include-interrupted -d 'Remove interrupted threads too.'
complete -c ckpt -n '__ckpt_in "purge"' -l include-pending -d 'Remove threads with a pending or unknown status too.'
complete -c ckpt -n '__ckpt_in "purge"' -l include-error -d 'Remove threads with status error too.'
complete -c ckpt -n '__ckpt_in "purge"' -l archive -r -F -d 'Archive each thread in DIR before removing it.'
complete -c ckpt -n '__ckpt_in "purge"' -l sign-key -r -F -d 'Sign archives with this Ed25519 private key.'
complete -c ckpt -n '__ckpt_in "purge"' -l plan-out -r -F -d 'Write the plan to FILE; remove nothing.'
complete -c ckpt -n '__ckpt_in "purge"' -l plan -r -F -d 'Carry out the plan in FILE.'
complete -c ckpt -n '__ckpt_in "purge"' -l max-duration -x -d 'Start no batch after TIME, such as 30m.'
complete -c ckpt -n '__ckpt_in "purge"' -l batch -x -d 'Threads per transaction.'
complete -c ckpt -n '__ckpt_in "purge"' -l sleep -x -d 'Pause between transactions.'
complete -c ckpt -n '__ckpt_in "purge"' -l vacuum -d 'Reclaim disk space afterwards (VACUUM).'
complete -c ckpt -n '__ckpt_in "purge"' -l memory -r -a '(__ckpt_ask store)' -F -d 'Long-term memory of these threads. [default: from the profile or DeerFlow]'
complete -c ckpt -n '__ckpt_in "purge"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "purge"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "gc"' -l scope -x -a 'blobs writes calls all' -d 'Kind of rows: blobs, writes, calls or all; repeatable.'
complete -c ckpt -n '__ckpt_in "gc"' -l grace -x -d 'Keep rows that are younger than AGE.'
complete -c ckpt -n '__ckpt_in "gc"' -l archive -r -F -d 'Archive each thread in DIR before changing it.'
complete -c ckpt -n '__ckpt_in "gc"' -l sign-key -r -F -d 'Sign archives with this Ed25519 private key.'
complete -c ckpt -n '__ckpt_in "gc"' -l batch -x -d 'Threads per transaction.'
complete -c ckpt -n '__ckpt_in "gc"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "gc"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "export"' -l format -x -a 'bundle jsonl' -d 'File format: bundle or jsonl.'
complete -c ckpt -n '__ckpt_in "export"' -l to -r -F -d 'Write one file per thread to DIR. [default: bundle: ., jsonl: stdout]'
complete -c ckpt -n '__ckpt_in "export"' -l sign-key -r -F -d 'Sign archives with this Ed25519 private key.'
complete -c ckpt -n '__ckpt_in "import"' -l trusted-key -r -F -d 'Only archives signed by a public key in FILE; repeatable.'
complete -c ckpt -n '__ckpt_in "import"' -l allow-pickle -d 'Also restore pickles, which run code when loaded.'
complete -c ckpt -n '__ckpt_in "import"' -l dry-run -d 'Show the plan; write nothing.'
complete -c ckpt -n '__ckpt_in "import"' -l yes -d 'Do not ask for confirmation.'
complete -c ckpt -n '__ckpt_in "du"' -l by -x -a 'thread channel ns type table' -d 'Group by thread, channel, ns, type or table.'
complete -c ckpt -n '__ckpt_in "du"' -l top -x -d 'Show the N largest.'
complete -c ckpt -n '__ckpt_in "stores"' -l layouts -d 'List the layouts that ckpt can open, with what each supports.'
complete -c ckpt -n '__ckpt_in "trust"' -l list -d 'List the trusted files.'
complete -c ckpt -n '__ckpt_in "trust"' -l remove -d 'Stop trusting the file.'
complete -c ckpt -n '__ckpt_in "completion"' -l install -d 'Write the script to your folder for completions.'
