/**
 * Runs a graph of LangGraph.js on a store: branches.mjs VERB URL CONFIG WORD.
 *
 * `drive` starts a thread, `resume` goes on at a checkpoint, `read` reads one, `forget` removes the
 * thread, and `left` tells what the saver finds of it. Each prints the answer as JSON. The nodes
 * write WORD, so that a branch shows which run made it.
 */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { MongoDBSaver } from "@langchain/langgraph-checkpoint-mongodb";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { RedisSaver } from "@langchain/langgraph-checkpoint-redis";
import { MongoClient } from "mongodb";

const [verb, url, config, word] = process.argv.slice(2);

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

const { saver, close } = await open();

const State = Annotation.Root({
  items: Annotation({ reducer: (old, added) => [...old, ...added], default: () => [] }),
  note: Annotation(),
});
const graph = new StateGraph(State)
  .addNode("a", () => ({ items: [`a-${word}`], note: `note-${word}` }))
  .addNode("b", () => ({ items: [`b-${word}`] }))
  .addEdge(START, "a")
  .addEdge("a", "b")
  .addEdge("b", END)
  .compile({ checkpointer: saver });

const at = { configurable: JSON.parse(config) };
const answers = {
  drive: () => graph.invoke({ items: ["in"] }, at),
  resume: () => graph.invoke(null, at),
  read: async () => {
    const { values, next, config: found } = await graph.getState(at);
    return { values, next, id: found.configurable.checkpoint_id };
  },
  forget: async () => (await saver.deleteThread(at.configurable.thread_id)) ?? null,
  left: async () => {
    const { thread_id } = at.configurable;
    const found = [];
    for await (const one of saver.list({ configurable: { thread_id } })) {
      // The search of Redis finds "T" for "t", too.
      if (one.config.configurable.thread_id === thread_id) {
        found.push(one.config.configurable.checkpoint_id);
      }
    }
    const head = await saver.getTuple(at);
    return { listed: found.length, head: head?.config.configurable.checkpoint_id ?? null };
  },
};
process.stdout.write(JSON.stringify(await answers[verb]()));
await close();
