// graph.mjs -- a graph whose answer is written in the message: a program, an array of steps.
//
// {"say":[TEXT…]} streams the texts, {"wait":FILE} waits for it, {"ask":VALUE} interrupts, {"call":NAME} calls a tool and
// says what came of it, {"fail":TEXT} throws.  "$" in a text is what the last interrupt or call has brought.

import { existsSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { AIMessageChunk, ToolMessage } from "@langchain/core/messages";
import { FakeStreamingChatModel } from "@langchain/core/utils/testing";
import { END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";

async function stream(chunks, messages, config) {
  const model = new FakeStreamingChatModel({ chunks: chunks.map((chunk) => new AIMessageChunk(chunk)) });
  const message = await model.invoke(messages, config);
  message.usage_metadata = { input_tokens: 3, output_tokens: 5, total_tokens: 8 };
  return message;
}

const exists = async (path, signal) => {
  while (!existsSync(path)) await setTimeout(20, undefined, { signal });
};

async function agent({ messages }, config) {
  const steps = JSON.parse(messages.findLast((message) => message.getType() === "human").content);
  const made = [];
  let brought = "";
  for (const step of steps) {
    const [verb, value] = Object.entries(step)[0];
    if (verb === "say") {
      const chunks = value.map((content) => ({ content: content.replaceAll("$", JSON.stringify(brought)) }));
      made.push(await stream(chunks, messages, config));
    } else if (verb === "wait") {
      await exists(value, config.signal);
    } else if (verb === "ask") {
      brought = interrupt(value);
    } else if (verb === "call") {
      const tool_call_chunks = [{ name: value, args: '{"path":"/x"}', id: "call_1", index: 0 }];
      made.push(await stream([{ content: "", tool_call_chunks }], messages, config));
      made.push(new ToolMessage({ content: (brought = `${value} of /x`), tool_call_id: "call_1", name: value }));
    } else if (verb === "count") {
      made.push(await stream([{ content: `${messages.length} messages` }], messages, config));
    } else if (verb === "fail") {
      throw new Error(value);
    }
  }
  return { messages: made };
}

export const graph = new StateGraph(MessagesAnnotation)
  .addNode("agent", agent)
  .addEdge(START, "agent")
  .addEdge("agent", END)
  .compile();
