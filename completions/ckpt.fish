# Fish completion of ckpt. Made by completions/generate.py.

function __ckpt_where
    set -l want ''
    set -l cmd ''
    set -l place 0
    for word in (commandline -opc)[2..-1]
        if test -n "$want"
            set want ''
            continue
        end
        switch "$cmd $word"
            case '* -s' '* --store' '* --config' '* -o' '* --output' '* --color' '* --aes-key-file' '* -n' '* --limit' '* --sort' '* --since' '* --until' '* --status' '* --match' 'threads list --where' '* --user' '* --page' '* --memory' '* --from' '* --archive' '* --at' '* --ns' '* --as-of' '* --channel' '* --path' '* --reducer' '* --older-than' '* --last' '* --threads' '* --jobs' '* --lines' '* --interval' '* --refresh' '* --top' '* --steps' '* --to-last' '* --reason' '* --to' '* --set' '* --append' '* --replace' '* --as-node' 'purge --where' '* --keep-last' '* --keep-within' '* --protect' '* --plan-out' '* --plan' '* --max-duration' '* --batch' '* --sleep' '* --scope' '* --grace' '* --format' '* --by'
                set want $word
            case '* -*'
            case '*'
                if test -z "$cmd"
                    set cmd $word
                else if contains -- $cmd threads
                    set cmd "$cmd $word"
                else
                    set place (math $place + 1)
                end
        end
    end
    echo "$cmd:$place"
end

function __ckpt_in
    string match -q -- "$argv[1]:*" (__ckpt_where)
end

function __ckpt_at
    test (__ckpt_where) = $argv[1]
end

function __ckpt_ask
    set -l want ''
    set -l store ''
    set -l config ''
    set -l ns ''
    set -l plain
    for word in (commandline -opc)[2..-1]
        switch $want
            case -s --store
                set store $word
            case --config
                set config $word
            case --ns
                set ns $word
        end
        if test -n "$want"
            set want ''
            continue
        end
        set -l cmd "$plain[1]"
        contains -- "$cmd" threads; and set cmd "$plain[1..2]"
        switch "$cmd $word"
            case '* -s' '* --store' '* --config' '* -o' '* --output' '* --color' '* --aes-key-file' '* -n' '* --limit' '* --sort' '* --since' '* --until' '* --status' '* --match' 'threads list --where' '* --user' '* --page' '* --memory' '* --from' '* --archive' '* --at' '* --ns' '* --as-of' '* --channel' '* --path' '* --reducer' '* --older-than' '* --last' '* --threads' '* --jobs' '* --lines' '* --interval' '* --refresh' '* --top' '* --steps' '* --to-last' '* --reason' '* --to' '* --set' '* --append' '* --replace' '* --as-node' 'purge --where' '* --keep-last' '* --keep-within' '* --protect' '* --plan-out' '* --plan' '* --max-duration' '* --batch' '* --sleep' '* --scope' '* --grace' '* --format' '* --by'
                set want $word
            case '* -*'
            case '*'
                set -a plain $word
        end
    end
    set -l skip 2
    contains -- "$plain[1]" threads; and set skip 3
    set -l program (commandline -opc)[1]
    set -l word (commandline -ct)
    $program _complete $argv[1] "$word" "$store" "$config" "$plain[$skip]" "$ns" 2>/dev/null
end

complete -c ckpt -f

complete -c ckpt -n '__ckpt_at :0' -a threads -d 'List or show threads.'
complete -c ckpt -n '__ckpt_at threads:0' -a list -d 'List threads, the most recent first.'
complete -c ckpt -n '__ckpt_at threads:0' -a show -d 'Show one thread as a whole.'
complete -c ckpt -n '__ckpt_at "threads show:0"' -a '(__ckpt_ask thread)'
complete -c ckpt -n '__ckpt_at threads:0' -a copy -d 'Copy a thread with all its history.'
complete -c ckpt -n '__ckpt_at "threads copy:0"' -a '(__ckpt_ask thread)'
complete -c ckpt -n '__ckpt_at threads:0' -a delete -d 'Remove threads by their names, whatever they wait for.'
complete -c ckpt -n '__ckpt_at :0' -a show -d 'Show a checkpoint\'s state, or a thread\'s tree.'
complete -c ckpt -n '__ckpt_at "show:0"' -a '(__ckpt_ask target)'
complete -c ckpt -n '__ckpt_at :0' -a history -d 'List a thread\'s checkpoints, newest first.'
complete -c ckpt -n '__ckpt_at "history:0"' -a '(__ckpt_ask thread)'
complete -c ckpt -n '__ckpt_at :0' -a diff -d 'Show what changed between two checkpoints.'
complete -c ckpt -n '__ckpt_at "diff:0"' -a '(__ckpt_ask target)'
complete -c ckpt -n '__ckpt_at "diff:1"' -a '(__ckpt_ask ref)'
complete -c ckpt -n '__ckpt_at "diff:2"' -a '(__ckpt_ask ref)'
complete -c ckpt -n '__ckpt_at :0' -a interrupts -d 'List questions that wait for an answer.'
complete -c ckpt -n '__ckpt_at "interrupts:0"' -a '(__ckpt_ask thread)'
complete -c ckpt -n '__ckpt_at :0' -a messages -d 'Print the conversation of a thread.'
complete -c ckpt -n '__ckpt_at "messages:0"' -a '(__ckpt_ask target)'
complete -c ckpt -n '__ckpt_at :0' -a grep -d 'Search the values of all threads.'
complete -c ckpt -n '__ckpt_at :0' -a blame -d 'Say which step and task set a value.'
complete -c ckpt -n '__ckpt_at "blame:0"' -a '(__ckpt_ask target)'
complete -c ckpt -n '__ckpt_at "blame:1"' -a '(__ckpt_ask channel)'
complete -c ckpt -n '__ckpt_at :0' -a tail -d 'Print a thread\'s checkpoints as they come.'
complete -c ckpt -n '__ckpt_at "tail:0"' -a '(__ckpt_ask thread)'
complete -c ckpt -n '__ckpt_at :0' -a tui -d 'Browse threads, their trees and checkpoints on one screen, and long-term memory.'
complete -c ckpt -n '__ckpt_at :0' -a sessions -d 'List or show an application\'s sessions.'
complete -c ckpt -n '__ckpt_at :0' -a memory -d 'List, search or remove what is remembered across threads.'
complete -c ckpt -n '__ckpt_at :0' -a replay -d 'Prove each checkpoint by its parent and the writes.'
complete -c ckpt -n '__ckpt_at "replay:0"' -a '(__ckpt_ask target)'
complete -c ckpt -n '__ckpt_at :0' -a stats -d 'Say which nodes write how much to which channels.'
complete -c ckpt -n '__ckpt_at "stats:0"' -a '(__ckpt_ask thread)'
complete -c ckpt -n '__ckpt_at :0' -a rollback -d 'Go back to an earlier checkpoint, by adding a copy of it.'
complete -c ckpt -n '__ckpt_at "rollback:0"' -a '(__ckpt_ask target)'
complete -c ckpt -n '__ckpt_at "rollback:1"' -a '(__ckpt_ask ref)'
complete -c ckpt -n '__ckpt_at :0' -a fork -d 'Go on from a checkpoint in a new branch or thread.'
complete -c ckpt -n '__ckpt_at "fork:0"' -a '(__ckpt_ask target)'
complete -c ckpt -n '__ckpt_at "fork:1"' -a '(__ckpt_ask ref)'
complete -c ckpt -n '__ckpt_at :0' -a undo -d 'Take back the last rollback or fork of a thread.'
complete -c ckpt -n '__ckpt_at "undo:0"' -a '(__ckpt_ask thread)'
complete -c ckpt -n '__ckpt_at :0' -a purge -d 'Remove threads, or what is old inside them.'
complete -c ckpt -n '__ckpt_at :0' -a gc -d 'Remove what belongs to nothing.'
complete -c ckpt -n '__ckpt_at :0' -a export -d 'Write threads to files, or print them.'
complete -c ckpt -n '__ckpt_at :0' -a import -d 'Put archived threads back, row for row.'
complete -c ckpt -n '__ckpt_at :0' -a du -d 'Say what takes how much room.'
complete -c ckpt -n '__ckpt_at "du:0"' -a '(__ckpt_ask thread)'
complete -c ckpt -n '__ckpt_at :0' -a stores -d 'Say which stores are here and what they are.'
complete -c ckpt -n '__ckpt_at :0' -a demo -d 'Write a small sample store.'
complete -c ckpt -n '__ckpt_at "demo:0"' -F
complete -c ckpt -s s -l store -r -a '(__ckpt_ask store)' -F -d 'SQLite file, store URL or profile [env: CKPT_STORE].'
complete -c ckpt -l config -r -F -d 'Read profiles from this file.'
complete -c ckpt -s o -l output -x -a 'auto table json ndjson tsv' -d 'auto, table, json, ndjson or tsv; auto is a table on a terminal, TSV in a pipe.'
complete -c ckpt -l color -x -a 'auto always never' -d 'auto, always or never [env: NO_COLOR].'
complete -c ckpt -l aes-key-file -x -d 'Decrypt values with the key in this file [env: LANGGRAPH_AES_KEY].'
complete -c ckpt -l redact -d 'Show the type and size of each value in its place.'
complete -c ckpt -l copy -d 'Read a private copy of a SQLite file and its log.'
complete -c ckpt -l no-pager -d 'Do not page long answers.'
complete -c ckpt -l utc -d 'Show times in UTC, not in this machine\'s zone.'
complete -c ckpt -s q -l quiet -d 'No notes on stderr.'
complete -c ckpt -s v -l verbose -d 'Say on stderr what was opened.'
complete -c ckpt -l debug -d 'Show the traceback of an error.'
complete -c ckpt -l version -d 'Print the version and leave.'
complete -c ckpt -l help -d 'Show this message and exit.'
complete -c ckpt -n '__ckpt_in "threads list"' -s n -l limit -x -d 'Show so many.'
complete -c ckpt -n '__ckpt_in "threads list"' -l all -d 'Show all, from the index.'
complete -c ckpt -n '__ckpt_in "threads list"' -l long -d 'Read each head, also with --all.'
complete -c ckpt -n '__ckpt_in "threads list"' -l sort -x -a 'last first id checkpoints namespaces step bytes' -d 'last, first, id, checkpoints, namespaces, step, bytes; last means newest first.'
complete -c ckpt -n '__ckpt_in "threads list"' -l since -x -d 'Active since then: 2h, 2026-04-07.'
complete -c ckpt -n '__ckpt_in "threads list"' -l until -x -d 'Not active after then.'
complete -c ckpt -n '__ckpt_in "threads list"' -l status -x -a 'interrupted error pending done unknown empty' -d 'interrupted, error, pending, done, unknown, empty; may be repeated.'
complete -c ckpt -n '__ckpt_in "threads list"' -l match -x -d 'Whose whole id fits, such as \'user-*\'.'
complete -c ckpt -n '__ckpt_in "threads list"' -l where -x -d 'Whose head says so; may be repeated.'
complete -c ckpt -n '__ckpt_in "threads list"' -l user -x -d 'Whose it is, where the layout says so.'
complete -c ckpt -n '__ckpt_in "threads list"' -l first-message -d 'With what a person said first.'
complete -c ckpt -n '__ckpt_in "threads list"' -l page -x -d 'The Nth so many.'
complete -c ckpt -n '__ckpt_in "threads list"' -l exit-code -d 'Exit 1 if anything was found, 0 if not.'
complete -c ckpt -n '__ckpt_in "threads show"' -l memory -x -d 'What is remembered of these threads, if not in the profile or beside them.'
complete -c ckpt -n '__ckpt_in "threads copy"' -l dry-run -d 'Show the plan and write nothing.'
complete -c ckpt -n '__ckpt_in "threads copy"' -l yes -d 'Do not ask.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l from -x -d 'Also the ids in a file, one a line; - is stdin.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l match -x -d 'Also those whose whole id fits.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l archive -x -d 'First write a bundle of each thread there.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l memory -x -d 'What is remembered of these threads, if not in the profile or beside them.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l dry-run -d 'Show the plan and write nothing.'
complete -c ckpt -n '__ckpt_in "threads delete"' -l yes -d 'Do not ask.'
complete -c ckpt -n '__ckpt_in "show"' -l at -x -a '(__ckpt_ask ref)' -d 'The checkpoint; THREAD is then never split at \'@\'.'
complete -c ckpt -n '__ckpt_in "show"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace; the root if not given.'
complete -c ckpt -n '__ckpt_in "show"' -l as-of -x -d 'The head as of then: 2h, yesterday, 2026-04-07.'
complete -c ckpt -n '__ckpt_in "show"' -l channel -x -a '(__ckpt_ask channel)' -d 'Only this channel; may be repeated.'
complete -c ckpt -n '__ckpt_in "show"' -l path -x -d 'A part, such as \'messages[-1].content\'.'
complete -c ckpt -n '__ckpt_in "show"' -l writes -d 'Also what its tasks wrote.'
complete -c ckpt -n '__ckpt_in "show"' -l metadata -d 'Also its metadata.'
complete -c ckpt -n '__ckpt_in "show"' -l raw -d 'The stored bytes of the checkpoint, undecoded.'
complete -c ckpt -n '__ckpt_in "show"' -l where -d 'The queries that find it in the store.'
complete -c ckpt -n '__ckpt_in "show"' -l tree -d 'Draw the thread\'s checkpoints.'
complete -c ckpt -n '__ckpt_in "show"' -l unfold -d 'Every step of the tree.'
complete -c ckpt -n '__ckpt_in "show"' -l all-ns -d 'The tree of each subgraph call too.'
complete -c ckpt -n '__ckpt_in "show"' -l mermaid -d 'The tree as a Mermaid flowchart.'
complete -c ckpt -n '__ckpt_in "show"' -l ascii -d 'Draw the tree without box characters.'
complete -c ckpt -n '__ckpt_in "history"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace; the root if not given.'
complete -c ckpt -n '__ckpt_in "history"' -l all-ns -d 'All namespaces.'
complete -c ckpt -n '__ckpt_in "history"' -s n -l limit -x -d 'Show so many; all if not given.'
complete -c ckpt -n '__ckpt_in "history"' -l messages -d 'With the conversation at each, in JSON.'
complete -c ckpt -n '__ckpt_in "diff"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace; the root if not given.'
complete -c ckpt -n '__ckpt_in "diff"' -l channel -x -a '(__ckpt_ask channel)' -d 'Only this channel; may be repeated.'
complete -c ckpt -n '__ckpt_in "diff"' -l stat -d 'One line a channel, with sizes.'
complete -c ckpt -n '__ckpt_in "diff"' -l writes -d 'How the checkpoint was made: each task\'s writes, merged.'
complete -c ckpt -n '__ckpt_in "diff"' -l reducer -x -d 'As in `replay`, for --writes.'
complete -c ckpt -n '__ckpt_in "diff"' -l exit-code -d 'Exit 1 if anything was found, 0 if not.'
complete -c ckpt -n '__ckpt_in "interrupts"' -l older-than -x -d 'Waiting longer than this.'
complete -c ckpt -n '__ckpt_in "interrupts"' -l exit-code -d 'Exit 1 if anything was found, 0 if not.'
complete -c ckpt -n '__ckpt_in "messages"' -l at -x -a '(__ckpt_ask ref)' -d 'The checkpoint; THREAD is then never split at \'@\'.'
complete -c ckpt -n '__ckpt_in "messages"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace; the root if not given.'
complete -c ckpt -n '__ckpt_in "messages"' -l channel -x -a '(__ckpt_ask channel)' -d 'The one that holds messages, if not given.'
complete -c ckpt -n '__ckpt_in "messages"' -l last -x -d 'Only the last N messages.'
complete -c ckpt -n '__ckpt_in "messages"' -l full -d 'Every message in its place, with all its fields.'
complete -c ckpt -n '__ckpt_in "messages"' -l stat -d 'Messages by role, tokens by model, calls by tool.'
complete -c ckpt -n '__ckpt_in "grep"' -s i -l ignore-case -d 'Upper and lower case are the same.'
complete -c ckpt -n '__ckpt_in "grep"' -s F -l fixed-strings -d 'Search for the text as it is.'
complete -c ckpt -n '__ckpt_in "grep"' -l threads -x -a '(__ckpt_ask thread)' -d 'Only in these, such as \'user-*\'.'
complete -c ckpt -n '__ckpt_in "grep"' -l channel -x -a '(__ckpt_ask channel)' -d 'Only this channel; may be repeated.'
complete -c ckpt -n '__ckpt_in "grep"' -l ns -x -a '(__ckpt_ask ns)' -d 'Only this one, \'\' for the root.'
complete -c ckpt -n '__ckpt_in "grep"' -l head-only -d 'Only what is known now, not what was.'
complete -c ckpt -n '__ckpt_in "grep"' -s n -l limit -x -d 'Stop after so many lines.'
complete -c ckpt -n '__ckpt_in "grep"' -l jobs -x -d 'Search with so many processes.'
complete -c ckpt -n '__ckpt_in "blame"' -l at -x -a '(__ckpt_ask ref)' -d 'The checkpoint; THREAD is then never split at \'@\'.'
complete -c ckpt -n '__ckpt_in "blame"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace; the root if not given.'
complete -c ckpt -n '__ckpt_in "tail"' -s n -l lines -x -d 'Begin with the last N.'
complete -c ckpt -n '__ckpt_in "tail"' -l ns -x -a '(__ckpt_ask ns)' -d 'Checkpoint namespace; the root if not given.'
complete -c ckpt -n '__ckpt_in "tail"' -l all-ns -d 'All namespaces.'
complete -c ckpt -n '__ckpt_in "tail"' -l interval -x -d 'Time between looks.'
complete -c ckpt -n '__ckpt_in "tui"' -l refresh -x -d 'Look again so often; 0: never.'
complete -c ckpt -n '__ckpt_in "tui"' -l write -d 'With keys that roll back, fork, undo, repair, purge.'
complete -c ckpt -n '__ckpt_in "replay"' -l at -x -a '(__ckpt_ask ref)' -d 'The checkpoint; THREAD is then never split at \'@\'.'
complete -c ckpt -n '__ckpt_in "replay"' -l ns -x -a '(__ckpt_ask ns)' -d 'Only this one, \'\' for the root.'
complete -c ckpt -n '__ckpt_in "replay"' -l verify -d 'Count the verdicts; exit 1 if anything does not match.'
complete -c ckpt -n '__ckpt_in "replay"' -l all -d 'All threads of the store.'
complete -c ckpt -n '__ckpt_in "replay"' -l threads -x -a '(__ckpt_ask thread)' -d 'With --all, only these: \'user-*\'.'
complete -c ckpt -n '__ckpt_in "replay"' -l jobs -x -d 'With --all, use so many processes.'
complete -c ckpt -n '__ckpt_in "replay"' -l reducer -x -d 'What a channel merges with, instead of finding out; may be repeated.'
complete -c ckpt -n '__ckpt_in "replay"' -l repair -d 'Put back values that are missing or unreadable.'
complete -c ckpt -n '__ckpt_in "replay"' -l dry-run -d 'Show the plan and write nothing.'
complete -c ckpt -n '__ckpt_in "replay"' -l yes -d 'Do not ask.'
complete -c ckpt -n '__ckpt_in "stats"' -l threads -x -a '(__ckpt_ask thread)' -d 'Only these, such as \'user-*\'.'
complete -c ckpt -n '__ckpt_in "stats"' -l ns -x -a '(__ckpt_ask ns)' -d 'With THREAD, only this, \'\' for the root.'
complete -c ckpt -n '__ckpt_in "stats"' -l since -x -d 'Checkpoints since then: 2h, 2026-04-07.'
complete -c ckpt -n '__ckpt_in "stats"' -l until -x -d 'Checkpoints until then.'
complete -c ckpt -n '__ckpt_in "stats"' -l top -x -d 'Show the N largest.'
complete -c ckpt -n '__ckpt_in "stats"' -l jobs -x -d 'Count with so many processes.'
complete -c ckpt -n '__ckpt_in "rollback"' -l at -x -a '(__ckpt_ask ref)' -d 'The checkpoint; THREAD is then never split at \'@\'.'
complete -c ckpt -n '__ckpt_in "rollback"' -l steps -x -d 'So many steps back.'
complete -c ckpt -n '__ckpt_in "rollback"' -l to-last -x -a 'interrupted error pending done unknown' -d 'The last one that was done, say.'
complete -c ckpt -n '__ckpt_in "rollback"' -l last-good -d 'The one before the first error.'
complete -c ckpt -n '__ckpt_in "rollback"' -l as-of -x -d 'The head as of then: 2h, yesterday, 2026-04-07.'
complete -c ckpt -n '__ckpt_in "rollback"' -l sibling -d 'Put the copy beside the checkpoint, not under it.'
complete -c ckpt -n '__ckpt_in "rollback"' -l root-only -d 'Leave the memory of subgraphs as it is.'
complete -c ckpt -n '__ckpt_in "rollback"' -l reason -x -d 'Kept in the new metadata.'
complete -c ckpt -n '__ckpt_in "rollback"' -l force -d 'Even if the newest checkpoint lies in the future.'
complete -c ckpt -n '__ckpt_in "rollback"' -l dry-run -d 'Show the plan and write nothing.'
complete -c ckpt -n '__ckpt_in "rollback"' -l yes -d 'Do not ask.'
complete -c ckpt -n '__ckpt_in "fork"' -l to -x -d 'Copy it to a new thread.'
complete -c ckpt -n '__ckpt_in "fork"' -l at -x -a '(__ckpt_ask ref)' -d 'The checkpoint; THREAD is then never split at \'@\'.'
complete -c ckpt -n '__ckpt_in "fork"' -l as-of -x -d 'The head as of then: 2h, yesterday, 2026-04-07.'
complete -c ckpt -n '__ckpt_in "fork"' -l set -x -d 'Merge a value in, by its reducer.'
complete -c ckpt -n '__ckpt_in "fork"' -l append -x -d 'Add an item to a list.'
complete -c ckpt -n '__ckpt_in "fork"' -l replace -x -d 'Put a value in the place of one.'
complete -c ckpt -n '__ckpt_in "fork"' -l as-node -x -d 'Go on as after this node.'
complete -c ckpt -n '__ckpt_in "fork"' -l reason -x -d 'Kept in the new metadata.'
complete -c ckpt -n '__ckpt_in "fork"' -l force -d 'Even if the newest checkpoint lies in the future.'
complete -c ckpt -n '__ckpt_in "fork"' -l dry-run -d 'Show the plan and write nothing.'
complete -c ckpt -n '__ckpt_in "fork"' -l yes -d 'Do not ask.'
complete -c ckpt -n '__ckpt_in "undo"' -l force -d 'Even if the newest checkpoint lies in the future.'
complete -c ckpt -n '__ckpt_in "undo"' -l dry-run -d 'Show the plan and write nothing.'
complete -c ckpt -n '__ckpt_in "undo"' -l yes -d 'Do not ask.'
complete -c ckpt -n '__ckpt_in "purge"' -l older-than -x -d 'Not active since: 30d, 2026-04-07.'
complete -c ckpt -n '__ckpt_in "purge"' -l expired -d 'Older than the profile\'s retention.'
complete -c ckpt -n '__ckpt_in "purge"' -l match -x -d 'Whose whole id fits, such as \'test-*\'.'
complete -c ckpt -n '__ckpt_in "purge"' -l where -x -d 'Whose head says so; may be repeated.'
complete -c ckpt -n '__ckpt_in "purge"' -l status -x -a 'interrupted error pending done unknown empty' -d 'interrupted, error, pending, done, unknown, empty; may be repeated.'
complete -c ckpt -n '__ckpt_in "purge"' -l keep-last -x -d 'Prune inside: keep the newest N.'
complete -c ckpt -n '__ckpt_in "purge"' -l keep-within -x -d 'Prune inside: keep what is younger.'
complete -c ckpt -n '__ckpt_in "purge"' -l keep-tips -d 'Prune inside: keep the ends of branches.'
complete -c ckpt -n '__ckpt_in "purge"' -l protect -x -d 'Never touch these threads; may be repeated.'
complete -c ckpt -n '__ckpt_in "purge"' -l include-interrupted -d 'Also threads in which a question waits.'
complete -c ckpt -n '__ckpt_in "purge"' -l include-pending -d 'Also threads in which something runs next.'
complete -c ckpt -n '__ckpt_in "purge"' -l archive -x -d 'First write a bundle of each thread there.'
complete -c ckpt -n '__ckpt_in "purge"' -l plan-out -x -d 'Write the plan, remove nothing.'
complete -c ckpt -n '__ckpt_in "purge"' -l plan -x -d 'Carry out this plan.'
complete -c ckpt -n '__ckpt_in "purge"' -l max-duration -x -d 'Begin no batch after: 30m, 2h.'
complete -c ckpt -n '__ckpt_in "purge"' -l batch -x -d 'Threads in one transaction.'
complete -c ckpt -n '__ckpt_in "purge"' -l sleep -x -d 'Rest between two transactions.'
complete -c ckpt -n '__ckpt_in "purge"' -l vacuum -d 'Give the room back at the end, as the engine does it.'
complete -c ckpt -n '__ckpt_in "purge"' -l memory -x -d 'What is remembered of these threads, if not in the profile or beside them.'
complete -c ckpt -n '__ckpt_in "purge"' -l dry-run -d 'Show the plan and write nothing.'
complete -c ckpt -n '__ckpt_in "purge"' -l yes -d 'Do not ask.'
complete -c ckpt -n '__ckpt_in "gc"' -l scope -x -d 'blobs, writes, calls or all; may be repeated.'
complete -c ckpt -n '__ckpt_in "gc"' -l grace -x -d 'Leave alone what is younger.'
complete -c ckpt -n '__ckpt_in "gc"' -l archive -x -d 'First write a bundle of each thread there.'
complete -c ckpt -n '__ckpt_in "gc"' -l batch -x -d 'Threads in one transaction.'
complete -c ckpt -n '__ckpt_in "gc"' -l dry-run -d 'Show the plan and write nothing.'
complete -c ckpt -n '__ckpt_in "gc"' -l yes -d 'Do not ask.'
complete -c ckpt -n '__ckpt_in "export"' -l format -x -d 'bundle or jsonl.'
complete -c ckpt -n '__ckpt_in "export"' -l to -x -d 'Where bundles are written.'
complete -c ckpt -n '__ckpt_in "import"' -l dry-run -d 'Show the plan and write nothing.'
complete -c ckpt -n '__ckpt_in "import"' -l yes -d 'Do not ask.'
complete -c ckpt -n '__ckpt_in "du"' -l by -x -a 'thread channel ns type table' -d 'List by thread, channel, ns, type, table.'
complete -c ckpt -n '__ckpt_in "du"' -l top -x -d 'Show the N largest.'
