// peers.mjs -- agents on the libraries of their own protocols: A2A's SDK, the AI SDK, AG-UI's schemas and encoder.
//
//   node peers.mjs        prints "listening on 127.0.0.1:PORT"
//
// The user's message is a program, an array of steps: {"say":TEXT}, {"think":TEXT}, {"wait":FILE}, {"ask":PROMPT},
// {"call":NAME}, {"fail":TEXT}, {"raw":OBJECT}.  What a question or call brought is said as "$" in a later text.
// GET /log is what was asked.

import { existsSync, watch } from "node:fs";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { join } from "node:path";
import { createRequire } from "node:module";

const clients = new URL("../../clients/", import.meta.url);
const require = createRequire(clients);
const load = (path) => import(new URL(`node_modules/${path}`, clients).href);
const { EventEncoder } = await load("@ag-ui/encoder/dist/index.mjs");
const { RunAgentInputSchema } = await load("@ag-ui/core/dist/schemas.mjs");
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = await load("@a2a-js/sdk/dist/server/index.js");
const { jsonRpcHandler, UserBuilder } = await load("@a2a-js/sdk/dist/server/express/index.js");
const { TaskState, Role } = await load("@a2a-js/sdk/dist/index.js");
const ai = await load("ai/dist/index.js");
const { MockLanguageModelV4 } = await load("ai/dist/test/index.js");
const { z } = await load("zod/index.js");
const express = require("express");

const log = [];

const exists = (path) =>
  new Promise((resolve) => {
    const look = () => existsSync(path) && (watcher.close(), resolve());
    const watcher = watch(join(path, ".."), look);
    look();
  });

const programOf = (text) => {
  try {
    const steps = JSON.parse(text);
    return Array.isArray(steps) ? steps : [{ say: `said: ${text}` }];
  } catch {
    return [{ say: `said: ${text}` }];
  }
};
const filled = (text, brought) => text.replaceAll("$", typeof brought === "string" ? brought : JSON.stringify(brought));

// --- A2A

const textPart = (text) => ({ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" });
const messageOf = (parts, taskId, contextId) => ({
  messageId: randomUUID(), role: Role.ROLE_AGENT, parts, taskId, contextId, metadata: {}, extensions: [], referenceTaskIds: [],
});

class Executor {
  rests = new Map(); // task → the steps after its question
  cancelled = new Map(); // task → cancels it

  async execute({ taskId, contextId, userMessage, task }, bus) {
    const text = userMessage.parts.map((part) => part.content.value).join("");
    log.push({ a2a: { text, taskId: task?.id ?? null, contextId } });
    const rest = this.rests.get(taskId);
    const status = (state, say) => ({
      state, timestamp: new Date().toISOString(), message: say && messageOf([textPart(say)], taskId, contextId),
    });
    const tell = (state, say) =>
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state, say), metadata: {} }));
    bus.publish(AgentEvent.task(task ?? {
      id: taskId, contextId, status: status(TaskState.TASK_STATE_SUBMITTED), history: [userMessage], artifacts: [], metadata: {},
    }));
    const cancel = new Promise((resolve) => this.cancelled.set(taskId, () => resolve("cancel")));
    const steps = rest?.steps ?? programOf(text);
    let begun = rest?.begun ?? false;
    tell(TaskState.TASK_STATE_WORKING);
    for (let i = 0; i < steps.length; i++) {
      const [verb, value] = Object.entries(steps[i])[0];
      if (verb === "say") {
        const artifact = { artifactId: "answer", name: "answer", description: "", parts: [textPart(filled(value, text))], metadata: {}, extensions: [] };
        bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: begun, lastChunk: false, metadata: {} }));
        begun = true;
      } else if (verb === "think") {
        tell(TaskState.TASK_STATE_WORKING, value);
      } else if (verb === "wait") {
        if ((await Promise.race([exists(value), cancel])) === "cancel") {
          log.push({ cancelled: taskId });
          tell(TaskState.TASK_STATE_CANCELED);
          return bus.finished();
        }
      } else if (verb === "ask") {
        this.cancelled.delete(taskId);
        this.rests.set(taskId, { steps: steps.slice(i + 1), begun });
        tell(TaskState.TASK_STATE_INPUT_REQUIRED, value);
        return bus.finished();
      } else if (verb === "fail") {
        tell(TaskState.TASK_STATE_FAILED, value);
        return bus.finished();
      }
    }
    tell(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  }

  async cancelTask(taskId, bus) {
    const cancel = this.cancelled.get(taskId);
    if (cancel) return cancel();
    const status = { state: TaskState.TASK_STATE_CANCELED, timestamp: new Date().toISOString() };
    bus.publish(AgentEvent.statusUpdate({ taskId, contextId: "", status, metadata: {} }));
    bus.finished();
  }
}

const card = (url, streaming) => ({
  name: "peer", description: "d", version: "1", provider: undefined, documentationUrl: "", iconUrl: "",
  supportedInterfaces: [
    { url, protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" },
    { url, protocolBinding: "JSONRPC", protocolVersion: "0.3", tenant: "" },
  ],
  capabilities: { streaming, pushNotifications: false, extensions: [], extendedAgentCard: false },
  defaultInputModes: ["text"], defaultOutputModes: ["text"], skills: [], securitySchemes: {}, securityRequirements: [], signatures: [],
});
const a2a = (url, streaming = true) => new DefaultRequestHandler(card(url, streaming), new InMemoryTaskStore(), new Executor());

/** A server before 1.0: it knows neither the header nor the methods. */
function only0_3(request, response, next) {
  const { id, method } = request.body;
  if (!method.includes("/"))
    return response.json({ jsonrpc: "2.0", id, error: { code: -32601, message: `Method not found: ${method}` } });
  delete request.headers["a2a-version"];
  next();
}

// --- the AI SDK: the program is what its model does

const usage = { inputTokens: { total: 3 }, outputTokens: { total: 5 } };

/** The model's turn: the steps after as many calls as have results. */
async function* turn(prompt) {
  const user = prompt.findLast((message) => message.role === "user");
  const results = prompt.flatMap((message) => (message.role === "tool" ? message.content : []));
  const last = results.findLast((part) => part.type === "tool-result")?.output.value ?? "";
  const steps = programOf(user.content.map((part) => part.text).join(""));
  let done = results.filter((part) => part.type === "tool-result").length, reason = "stop";
  yield { type: "stream-start", warnings: [] };
  for (const [i, step] of steps.entries()) {
    const [verb, value] = Object.entries(step)[0];
    if (done > 0) {
      done -= verb === "call";
      continue;
    }
    const kind = { say: "text", think: "reasoning" }[verb];
    if (kind) {
      yield { type: `${kind}-start`, id: `${i}` };
      yield { type: `${kind}-delta`, id: `${i}`, delta: filled(value, last) };
      yield { type: `${kind}-end`, id: `${i}` };
    } else if (verb === "wait") {
      await exists(value);
    } else if (verb === "fail") {
      yield { type: "error", error: value };
    } else if (verb === "call") {
      yield { type: "tool-call", toolCallId: `c${i}`, toolName: value, input: JSON.stringify({ path: "/x" }) };
      reason = "tool-calls";
      break;
    }
  }
  yield { type: "finish", finishReason: { unified: reason }, usage };
}

const inputSchema = z.object({ path: z.string() });
const tools = {
  look: ai.tool({ inputSchema, execute: async ({ path }) => ({ at: path }) }),
  remove: ai.tool({ inputSchema, needsApproval: true, execute: async ({ path }) => `removed ${path}` }),
};

async function aiSdk(request, response) {
  const { messages } = request.body;
  log.push({ "ai-sdk": request.body });
  const model = new MockLanguageModelV4({
    doStream: async ({ prompt }) => ({ stream: ReadableStream.from(turn(prompt)) }),
  });
  const result = ai.streamText({
    model, tools, messages: await ai.convertToModelMessages(messages), stopWhen: ai.stepCountIs(5), onError: () => {},
    experimental_toolApprovalSecret: "secret",
  });
  response.on("close", () => log.push({ closed: "ai-sdk" }));
  ai.pipeUIMessageStreamToResponse({
    response,
    stream: result.toUIMessageStream({
      originalMessages: messages, onError: (error) => String(error.message ?? error),
      messageMetadata: ({ part }) => (part.type === "finish" ? { totalUsage: part.totalUsage } : undefined),
    }),
  });
}

// --- AG-UI: its input is checked by its own schema

async function agUi(request, response) {
  const parsed = RunAgentInputSchema.safeParse(request.body);
  if (!parsed.success) return void response.status(400).json({ error: parsed.error.message });
  const { threadId, runId, messages, resume } = parsed.data;
  log.push({ "ag-ui": request.body });
  const encoder = new EventEncoder();
  const send = (event) => response.write(encoder.encodeSSE(event));
  const steps = programOf(messages.findLast((message) => message.role === "user").content);
  const from = resume ? 1 + Math.max(...resume.map((entry) => Number(entry.interruptId.split("-")[1]))) : 0;
  const brought = resume?.[0].payload ?? resume?.[0].status;
  response.on("close", () => log.push({ closed: "ag-ui" }));
  response.writeHead(200, { "content-type": encoder.getContentType() });
  send({ type: "RUN_STARTED", threadId, runId });
  for (let i = from; i < steps.length; i++) {
    const [verb, value] = Object.entries(steps[i])[0];
    const id = `${runId}-${i}`;
    if (verb === "say") {
      send({ type: "TEXT_MESSAGE_START", messageId: id, role: "assistant" });
      send({ type: "TEXT_MESSAGE_CONTENT", messageId: id, delta: filled(value, brought) });
      send({ type: "TEXT_MESSAGE_END", messageId: id });
    } else if (verb === "call") {
      send({ type: "TOOL_CALL_START", toolCallId: id, toolCallName: value });
      send({ type: "TOOL_CALL_ARGS", toolCallId: id, delta: "{}" });
      send({ type: "TOOL_CALL_END", toolCallId: id });
    } else if (verb === "wait") {
      await exists(value);
    } else if (verb === "raw") {
      send(value);
    } else if (verb === "ask") {
      const interrupts = [value].flat().map((interrupt, n) => ({ id: `ask-${i}-${n}`, reason: "input_required", ...interrupt }));
      send({ type: "RUN_FINISHED", threadId, runId, outcome: { type: "interrupt", interrupts } });
      return void response.end();
    }
  }
  send({ type: "RUN_FINISHED", threadId, runId, outcome: { type: "success" } });
  response.end();
}

// --- the server

const app = express();
const server = createServer(app).listen(0, "127.0.0.1", () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const userBuilder = UserBuilder.noAuthentication;
  app.get("/log", (_, response) => response.json(log));
  app.use(express.json({ limit: "4mb" }));
  app.use((request, _, next) => (request.body?.method && log.push({ method: request.body.method }), next()));
  app.use("/a2a", jsonRpcHandler({ requestHandler: a2a(`${url}/a2a`), userBuilder }));
  app.use("/a2a-plain", jsonRpcHandler({ requestHandler: a2a(`${url}/a2a-plain`, false), userBuilder }));
  app.use("/a2a-old", only0_3);
  app.use("/a2a-old", jsonRpcHandler({ requestHandler: a2a(`${url}/a2a-old`), userBuilder, legacyCompat: { enabled: true } }));
  app.post("/ai-sdk", aiSdk);
  app.post("/ag-ui", agUi);
  console.log(`listening on 127.0.0.1:${server.address().port}`);
});
