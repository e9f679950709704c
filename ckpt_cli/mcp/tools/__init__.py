"""What an agent can ask: each tool is declared next to the function that answers it."""

from ckpt_cli.mcp.tools import checkpoints, histories, memory, troubles

TOOLS = {
    one.name: one for one in (*histories.TOOLS, *checkpoints.TOOLS, *troubles.TOOLS, *memory.TOOLS)
}
