/**
 * Runs a graph of LangGraph.js on a PostgreSQL store: branches.mjs VERB URL CONFIG WORD.
 *
 * `drive` starts a thread, `resume` goes on at a checkpoint, `read` reads one. Each prints the
 * answer as JSON. The nodes write WORD, so that a branch shows which run made it.
 */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";

const [verb, url, config, word] = process.argv.slice(2);
const saver = PostgresSaver.fromConnString(url);
await saver.setup();

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
};
process.stdout.write(JSON.stringify(await answers[verb]()));
await saver.end();
