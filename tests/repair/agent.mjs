/**
 * Runs an agent of LangGraph.js on a store: agent.mjs VERB URL CONFIG TEXT.
 *
 * `hang` sends a message, and its slow tool never returns: a line is printed when it runs. `send`
 * sends a message, `resume` goes on at a checkpoint, and `read` reads one. Each prints the messages
 * as JSON, or the error.
 */

import { AIMessage, HumanMessage, isAIMessage, isToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { MongoDBSaver } from "@langchain/langgraph-checkpoint-mongodb";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { RedisSaver } from "@langchain/langgraph-checkpoint-redis";
import { ToolNode, toolsCondition } from "@langchain/langgraph/prebuilt";
import { MongoClient } from "mongodb";
import { z } from "zod";

const [verb, url, config, text] = process.argv.slice(2);

async function open() {
  if (url.startsWith("redis:")) {
    const saver = await RedisSaver.fromUrl(url);
    return { saver, close: () => saver.end() };
  }
  if (url.startsWith("mongodb:")) {
    const client = await new MongoClient(url).connect();
    const saver = new MongoDBSaver({ client, dbName: new URL(url).pathname.slice(1) });
    await saver.setup();
    return { saver, close: () => client.close() };
  }
  const saver = PostgresSaver.fromConnString(url);
  await saver.setup();
  return { saver, close: () => saver.end() };
}

/** Throws where a model's API would refuse the messages. */
function check(messages) {
  let wanted = new Set();
  for (const message of messages) {
    if (isToolMessage(message)) {
      if (!wanted.delete(message.tool_call_id)) throw new Error("INVALID_CHAT_HISTORY: result");
      continue;
    }
    if (wanted.size) break;
    wanted = new Set(isAIMessage(message) ? message.tool_calls.map((call) => call.id) : []);
  }
  if (wanted.size) throw new Error("INVALID_CHAT_HISTORY: call");
}

const made = (name, run) => tool(run, { name, description: name, schema: z.object({}) });
const tools = [
  made("quick", () => "quick result"),
  made("slow", () => {
    if (verb !== "hang") return "slow result";
    process.stdout.write("slow\n");
    return new Promise((resolve) => setTimeout(resolve, 600_000));
  }),
];

function model({ messages }) {
  check(messages);
  const last = messages.at(-1);
  const id = `ai-${messages.length}`;
  if (last.getType() !== "human") return { messages: [new AIMessage({ id, content: "answer" })] };
  const names = last.content.split(" ").filter((word) => tools.some(({ name }) => name === word));
  const calls = names.map((name) => ({ name, args: {}, id: `call-${messages.length}-${name}` }));
  return { messages: [new AIMessage({ id, content: "", tool_calls: calls })] };
}

const { saver, close } = await open();
const graph = new StateGraph(MessagesAnnotation)
  .addNode("model", model)
  .addNode("tools", new ToolNode(tools))
  .addEdge(START, "model")
  .addConditionalEdges("model", toolsCondition)
  .addEdge("tools", "model")
  .compile({ checkpointer: saver });

const at = { configurable: JSON.parse(config) };
const send = () => graph.invoke({ messages: [new HumanMessage(text)] }, at);
const verbs = {
  hang: send,
  send,
  resume: () => graph.invoke(null, at),
  read: async () => (await graph.getState(at)).values,
};
try {
  const { messages } = await verbs[verb]();
  const told = messages.map((one) => [one.getType(), one.tool_call_id, one.status, one.content]);
  console.log(JSON.stringify(told));
} catch (error) {
  console.log(JSON.stringify(String(error.message)));
}
await close();
