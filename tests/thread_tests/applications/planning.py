"""A deep agent: a list of things to do, files in the state, and a helper that is an agent."""

from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, TodoListMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.types import Command

from tests.thread_tests.applications.chat import Scripted


def merged(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    return {**before, **after}


class Files(AgentState):
    files: Annotated[dict[str, str], merged]


class FilesMiddleware(AgentMiddleware):
    state_schema = Files


@tool
def note(text: str, call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Write a file."""
    message = ToolMessage(f"wrote {len(text)} characters", tool_call_id=call_id)
    return Command(update={"files": {"note.txt": text}, "messages": [message]})


@tool
def capital(query: str) -> str:
    """Find a capital."""
    return f"the capital of {query}"


HELPER = create_agent(Scripted(), [capital], system_prompt="You know countries.")


@tool
def ask_helper(query: str) -> str:
    """Let the helper find something."""
    found = HELPER.invoke({"messages": [HumanMessage(f"capital({query})")]})
    return str(found["messages"][-1].content)


class Planner(Scripted):
    def answer(self, messages: Any) -> AIMessage:
        if messages[-1].content == "plan":
            todos = [{"content": "look", "status": "pending"}]
            call = {"name": "write_todos", "args": {"todos": todos}, "id": f"plan_{self.calls}"}
            return AIMessage("", tool_calls=[call])
        return super().answer(messages)


def build(checkpointer: Any = None) -> Any:
    middleware: list[Any] = [TodoListMiddleware(), FilesMiddleware()]
    return create_agent(
        Planner(), [note, ask_helper], middleware=middleware, checkpointer=checkpointer
    )


INPUTS = [
    {"messages": [("user", "plan")]},
    {"messages": [("user", "note(buy milk)")]},
    {"messages": [("user", "ask_helper(France)")]},
]
