"""Commands that read, which every store with a thread `trip` must answer."""

COMMANDS = [
    ["threads", "list", "--long", "-o", "json"],
    ["threads", "list", "--all", "-o", "json"],
    ["show", "--long", "trip"],
    ["show", "trip", "--writes", "--metadata"],
    ["show", "trip", "--tree", "--all-ns", "--unfold"],
    ["show", "trip", "--raw"],
    ["show", "trip", "--where"],
    ["history", "trip", "--all-ns"],
    ["diff", "trip"],
    ["interrupts"],
    ["messages", "trip"],
    ["grep", "from"],
    ["blame", "trip", "items"],
    ["du"],
    ["du", "trip", "--by", "channel"],
    ["diff", "trip", "--writes"],
    ["replay", "trip", "--verify"],
    ["replay", "--all", "--verify"],
    ["stats"],
    ["stores"],
    ["doctor", "--deep"],
]
PLANNED = [
    ["replay", "trip", "--repair", "--dry-run"],
    ["rollback", "trip", "head", "--force", "--dry-run"],
    ["copy", "trip@head", "--as", "new", "--dry-run"],
    ["migrate", "trip", "--rename-channel", "items=things", "--dry-run"],
]
"""Changes that are planned, for which a store must have a history."""
