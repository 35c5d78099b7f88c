// serve.mjs -- LangGraph's own server with that graph; its files lie in the working directory.
//
//   node serve.mjs        prints "listening on 127.0.0.1:PORT"

import { startServer } from "@langchain/langgraph-api/server";

const graph = new URL("graph.mjs", import.meta.url).pathname;
const { host } = await startServer({
  port: 0, nWorkers: 4, host: "127.0.0.1", cwd: process.cwd(), graphs: { agent: `${graph}:graph` },
});
console.log(`listening on ${host}`);
