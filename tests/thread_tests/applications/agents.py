"""Conversations: agents by hand and of LangChain, with tools, prompts, and people who are asked."""

import operator
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, TodoListMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, MessagesState
from langgraph.prebuilt import InjectedState, ToolNode, create_react_agent
from langgraph.types import Command, interrupt

from tests.kit.agents.small import chain
from tests.thread_tests.applications.chat import Scripted


def loop(checkpointer: Any = None) -> Any:
    """A loop of a model and tools, built by hand, with a counter."""

    class State(MessagesState):
        turns: Annotated[int, operator.add]

    @tool
    def weather(query: str) -> str:
        """Say what the weather is."""
        return f"sunny in {query}"

    def model(state: State) -> Any:
        messages = [SystemMessage("Be brief."), *state["messages"]]
        return {"messages": [Scripted().invoke(messages)], "turns": 1}

    def route(state: Any) -> str:
        return "tools" if state["messages"][-1].tool_calls else END

    graph = chain(State, {"model": model})
    graph.add_node("tools", ToolNode([weather])).add_edge("tools", "model")
    graph.add_conditional_edges("model", route, ["tools", END])
    return graph.compile(checkpointer=checkpointer)


def handoff(checkpointer: Any = None) -> Any:
    """Two agents, one of which hands over to the other by a tool."""

    @tool
    def transfer_to_billing(
        reason: str,
        state: Annotated[Any, InjectedState],
        call_id: Annotated[str, InjectedToolCallId],
    ) -> Any:
        """Hand over to billing."""
        message = ToolMessage(f"Handed over: {reason}", tool_call_id=call_id, name="transfer")
        messages = [*state["messages"], message]
        return Command(graph=Command.PARENT, goto="billing", update={"messages": messages})

    @tool
    def invoice(query: str) -> str:
        """Find an invoice."""
        return f"invoice of {query}"

    desk = create_react_agent(Scripted(), [transfer_to_billing], prompt="You are the desk.")
    billing = create_react_agent(Scripted(), [invoice], prompt="You do the bills.")
    graph = chain(MessagesState, {"desk": desk})
    return graph.add_node("billing", billing).compile(checkpointer=checkpointer)


def reviewing(checkpointer: Any = None) -> Any:
    """A tool that asks a person, in a subgraph of an agent."""

    class State(MessagesState):
        mood: str

    @tool
    def book(query: str) -> str:
        """Book a table."""
        answer = interrupt({"book": query})
        return f"{query} {answer}"

    def greet(state: State) -> Any:
        return {"mood": "good" if len(state["messages"]) < 3 else "better"}

    agent = create_react_agent(Scripted(), [book], prompt="You book tables.", name="agent")
    return chain(State, {"greet": greet, "agent": agent}).compile(checkpointer=checkpointer)


def planning(checkpointer: Any = None) -> Any:
    """An agent with a list of what is to do, files in the state, and a helper behind a tool."""

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

    helper = create_agent(Scripted(), [capital], system_prompt="You know countries.")

    @tool
    def ask_helper(query: str) -> str:
        """Let the helper find something."""
        found = helper.invoke({"messages": [HumanMessage(f"capital({query})")]})
        return str(found["messages"][-1].content)

    class Planner(Scripted):
        def answer(self, messages: Any) -> AIMessage:
            if messages[-1].content == "plan":
                todos = [{"content": "look", "status": "pending"}]
                call = {"name": "write_todos", "args": {"todos": todos}, "id": f"plan_{self.calls}"}
                return AIMessage("", tool_calls=[call])
            return super().answer(messages)

    middleware: list[Any] = [TodoListMiddleware(), FilesMiddleware()]
    tools = [note, ask_helper]
    return create_agent(Planner(), tools, middleware=middleware, checkpointer=checkpointer)


def asynchronous(checkpointer: Any = None) -> Any:
    """Nodes and tools that are async only; one streams its model, and asks another one in turn."""

    class State(MessagesState):
        words: int

    @tool
    async def fetch(query: str) -> str:
        """Fetch a page."""
        return f"page {query}"

    async def model(state: State) -> Any:
        prompt = [SystemMessage("Read the web."), *state["messages"]]
        return {"messages": [await Scripted().ainvoke(prompt)]}

    async def review(state: State) -> Any:
        whole: Any = None
        for chunk in Scripted().stream([SystemMessage("Speak."), *state["messages"]]):
            whole = chunk if whole is None else whole + chunk
        first = AIMessage(whole.content, id=whole.id)
        prompt = [SystemMessage("Judge."), *state["messages"], first]
        second = await Scripted().ainvoke(prompt)
        return {"messages": [first, second], "words": len(str(second.content).split())}

    def route(state: Any) -> str:
        return "tools" if state["messages"][-1].tool_calls else "review"

    graph = chain(State, {"model": model}).add_node("review", review)
    graph.add_node("tools", ToolNode([fetch])).add_edge("tools", "model")
    graph.add_conditional_edges("model", route, ["tools", "review"])
    return graph.compile(checkpointer=checkpointer)


def said(*texts: str) -> list[Any]:
    return [{"messages": [("user", text)]} for text in texts]


INPUTS = {
    loop: said("weather(Oslo)", "weather(Rome) weather(Bari)"),
    handoff: said("Hello", "transfer_to_billing(unpaid)"),
    reviewing: [*said("book(Friday)"), Command(resume="confirmed"), *said("Thanks")],
    planning: said("plan", "note(buy milk)", "ask_helper(France)"),
    asynchronous: said("fetch(news)", "go on"),
}
