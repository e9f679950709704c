/**
 * Runs a graph of LangGraph.js that asks two questions: asks.mjs VERB URL CONFIG WORD.
 *
 * `drive` answers the first question, `resume` goes on without an answer, `answer` answers with
 * WORD. Each prints what is asked, or the final state.
 */

import { Annotation, Command, END, START, StateGraph, interrupt } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";

const [verb, url, config, word] = process.argv.slice(2);
const saver = PostgresSaver.fromConnString(url);
await saver.setup();

const ran = [];
const State = Annotation.Root({
  log: Annotation({ reducer: (old, added) => [...old, ...added], default: () => [] }),
});
const graph = new StateGraph(State)
  .addNode("ask", () => {
    ran.push("ask");
    return { log: [`${interrupt("first?")} and ${interrupt("second?")}`] };
  })
  .addNode("pay", () => {
    ran.push("pay");
    return { log: ["paid"] };
  })
  .addEdge(START, "ask")
  .addEdge(START, "pay")
  .addEdge("ask", END)
  .compile({ checkpointer: saver });

const at = { configurable: JSON.parse(config) };
const given = {
  drive: async () => {
    await graph.invoke({ log: [] }, at);
    return new Command({ resume: "yes" });
  },
  resume: async () => null,
  answer: async () => new Command({ resume: word }),
};
const found = await graph.invoke(await given[verb](), at);
const asked = (found.__interrupt__ ?? []).map((one) => one.value);
process.stdout.write(JSON.stringify({ log: found.log, asked, ran }));
await saver.end();
