/**
 * Runs a graph of LangGraph.js on a store for as long as it is asked to: graph.mjs KIND URL.
 *
 * KIND is one of `documents.mjs`. Each line of the input is `[VERB, THREAD, WORD]`, and each line of
 * the output the answer. The graph has two nodes, the first of which may ask a question.
 */

import readline from "node:readline";

import { Annotation, Command, END, START, StateGraph, interrupt } from "@langchain/langgraph";

import { STORES } from "./documents.mjs";

const [kind, url] = process.argv.slice(2);
const store = await STORES[kind].open(url);
const { saver } = store;

const State = Annotation.Root({
  items: Annotation({ reducer: (old, added) => [...old, ...added], default: () => [] }),
});

const graphOf = (asks) =>
  new StateGraph(State)
    .addNode("first", ({ items }) => ({
      items: [`first ${asks ? interrupt("which?") : items.length}`],
    }))
    .addNode("second", () => ({ items: ["second"] }))
    .addEdge(START, "first")
    .addEdge("first", "second")
    .addEdge("second", END)
    .compile({ checkpointer: saver });

const configOf = (thread_id) => ({ configurable: { thread_id } });

const verbs = {
  run: (thread, word) => graphOf(false).invoke({ items: [word] }, configOf(thread)),
  ask: (thread, word) => graphOf(true).invoke({ items: [word] }, configOf(thread)),
  answer: (thread, word) => graphOf(true).invoke(new Command({ resume: word }), configOf(thread)),
  next: async (thread) => (await graphOf(true).getState(configOf(thread))).next,
  forget: async (thread) => (await saver.deleteThread(thread)) ?? null,
  read: async (thread) => {
    const config = { configurable: { thread_id: thread, checkpoint_ns: "" } };
    const found = [];
    for await (const one of saver.list(config)) found.push(one);
    const head = await saver.getTuple(config);
    if ((head === undefined) !== (found.length === 0)) throw new Error("list is not getTuple");
    return found.map(({ checkpoint, metadata, pendingWrites }) => {
      return [checkpoint, metadata, (pendingWrites ?? []).map(String).sort()];
    });
  },
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const [verb, thread, word] = JSON.parse(line);
  process.stdout.write(`${JSON.stringify((await verbs[verb](thread, word)) ?? null)}\n`);
}
await store.close();
