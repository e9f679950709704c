"""The command lines that hostile data goes through, whatever a store or a server holds."""

THREAD = "{}"
"""Stands for the thread; where it does not occur, the thread is the last word."""


def each(command: str, *options: str) -> list[list[str]]:
    """Return a command with each of these options."""
    return [f"{command} {one}".split() for one in options]


def on(thread: str, words: list[str]) -> list[str]:
    """Return a command line with its thread."""
    if THREAD in words:
        return [thread if word == THREAD else word for word in words]
    return [*words, "--", thread]


EVERY_ROW = each("show", "--writes --metadata", "-o json")
"""They print the most of a thread, so every row goes through them."""
ON_THREAD = [
    *each("show", "", "-o tsv", "--writes -o ndjson", "--long", "--where", "--mermaid"),
    *each("show", "--tree", "--tree --all-ns --unfold --ascii", "--tree --all-ns -o json"),
    *each("show", "--svg --all-ns --unfold", "--at step:0", "--as-of 1d", "--redact --writes"),
    *each("show", "--as pytest", "--as pytest --redact --at step:0"),
    *each("report", "--all-ns"),
    *each("history", "--all-ns", "-o table", "--all-ns -o table", "-o json"),
    *each("diff", "", "--stat", "-o json", "--writes", "--writes -o json"),
    *each("blame", "-- {} messages"),
    *each("replay", "", "--all-steps", "--verify -o json", "--verify -o table"),
    *each("replay", "--repair --dry-run"),
    *each("timeline", "", "-o json"),
    *each("stats", "", "--by node,channel,thread,day,user", "--by model,node,thread,day,user"),
    *each("messages", "", "--full", "-o json", "--stat"),
    *each("du", "", "--by channel -o table"),
    *each("interrupts", ""),
    *each("errors", "--history", "--history -o json"),
    *each("memory", "sessions --thread {}"),
    *each("export", "--format jsonl -o ndjson"),
    *each("rollback", "--steps 1 --dry-run", "--at head --dry-run -o json"),
    *each("fork", "--at head --dry-run", "--at head --append messages=1 --dry-run"),
    *each("fork", "--at head --set messages=[] --dry-run"),
    *each("copy", "--at head --as another --dry-run -o json", "--as new --dry-run"),
    *each("migrate", "--rename-node think=x --rename-channel messages=y --dry-run -o json"),
    *each("undo", "--dry-run"),
    *each("threads", "delete --dry-run"),
]
WHOLE = [
    *each("threads list", "", "--long --all -o json", "--limit 1000 -o table"),
    *each("threads list", "--where metadata.user=1 --all", "--status done --all"),
    *each("interrupts", "-o json"),
    *each("errors", "--history -o json", "--by error -o table"),
    *each("grep", ".", "-i e -o table --limit 500", ". -o json --head-only", "(a|e)+x? -i"),
    *each("replay --all", "-o json", "-o table"),
    *each("stats", "-o json", "--by user,day -o json", "--by model -o json"),
    *each("du", "-o json", "--by channel --top 1000", "--by thread --top 1000 -o table"),
    *each("stores", ""),
    *each("memory", "list --all", "list --flat -o json", "search a", "export"),
    *each("purge", "--older-than 1d --dry-run", "--keep-tips --dry-run -o json"),
    *each("purge", "--keep-last 1 --dry-run", "--match * --dry-run"),
    *each("gc", "--scope all --dry-run"),
    *each("doctor", "-o json", "--types -o json"),
]
ON_SERVER = [
    *each("threads", "list", "list -n 3", "list --long"),
    *each("show", "trip", "--long trip", "trip --writes --metadata"),
    *each("history", "trip"),
    *each("grep", "from"),
    *each("du", "", "--by channel"),
    *each("stores", ""),
    *each("stats", ""),
    *each("interrupts", ""),
    *each("memory", "list", "sessions", "show a"),
    *each("rollback", "trip ~1 --yes"),
    *each("threads", "delete trip --yes"),
]
"""What a hostile server is asked; the last two change its thread."""
