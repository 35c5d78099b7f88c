// acp.mjs -- an ACP agent on the protocol's own library: the prompt's text is its program, an array of steps.
//
//   node acp.mjs FOLDER [load|resume|auth|mute…]
//
// Each start is a line of FOLDER/started; sessions lie in FOLDER/sessions, so that another process can go on with them.
// A text that is no program is answered with "said: " and itself.

import { appendFileSync, existsSync, mkdirSync, readFileSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { agent, methods, ndJsonStream, RequestError } from "../../clients/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js";

const [folder, ...can] = process.argv.slice(2);
const sessions = join(folder, "sessions");
mkdirSync(sessions, { recursive: true });
appendFileSync(join(folder, "started"), `${JSON.stringify({ pid: process.pid, cwd: process.cwd() })}\n`);
const log = (entry) => appendFileSync(join(folder, "asked"), `${JSON.stringify(entry)}\n`);

let authenticated = !can.includes("auth");
let cancelled = () => {};
let terminal = "";
let files = [];

const exists = (path) =>
  new Promise((resolve) => {
    const look = () => existsSync(path) && (watcher.close(), resolve());
    const watcher = watch(join(path, ".."), look);
    look();
  });

const steps = {
  say: (text) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } }),
  think: (text) => ({ sessionUpdate: "agent_thought_chunk", content: { type: "text", text } }),
  update: (update) => update,
};

async function carryOut(step, { client, sessionId, signal }) {
  const [verb, value] = Object.entries(step)[0];
  const update = (update) => client.notify(methods.client.session.update, { sessionId, update });
  if (verb in steps) return void (await update(steps[verb](value)));
  if (verb === "wait") return void (await exists(value));
  if (verb === "pause") return void (await new Promise((resolve) => setTimeout(resolve, value)));
  if (verb === "exit") process.exit(value);
  if (verb === "raw") return void process.stdout.write(`${value}\n`);
  if (verb === "stderr") return void process.stderr.write(value);
  if (verb === "throw") throw new Error(value);
  if (verb === "stop") return value;
  if (verb === "hang") {
    await new Promise((resolve) => {
      if (value === "politely") cancelled = resolve;
      else if (value === "stubbornly") process.on("SIGTERM", () => {});
    });
    return "cancelled";
  }
  if (verb !== "request") throw new Error(`no step ${verb}`);
  const [method, params] = value;
  if (params.path === "$") params.path = fileURLToPath(files.at(-1).uri); // that the message has last
  if (params.terminalId === "$") params.terminalId = terminal; // the last one that was made
  const answer = await client.request(method, { sessionId, ...params }).catch((error) => ({ code: error.code, message: error.message }));
  log({ method, answer });
  terminal = answer?.terminalId ?? terminal;
  await update(steps.say(JSON.stringify(answer)));
}

const file = (id) => join(sessions, id);
const known = (id) => {
  if (!existsSync(file(id))) throw new RequestError(-32002, "Resource not found", { sessionId: id });
};

agent({ name: "scripted" })
  .onRequest(methods.agent.initialize, ({ params }) => {
    log({ initialize: params });
    return {
      protocolVersion: can.includes("old") ? 0 : 1,
      agentCapabilities: {
        loadSession: can.includes("load"),
        sessionCapabilities: can.includes("resume") ? { resume: {} } : {},
        mcpCapabilities: { http: can.includes("mcp-http"), sse: false },
        promptCapabilities: { image: can.includes("image") },
      },
      authMethods: [{ id: "browser", name: "Browser" }, { id: "key", name: "Key" }],
    };
  })
  .onRequest(methods.agent.authenticate, ({ params }) => {
    log({ authenticate: params });
    if (params.methodId !== "key") throw RequestError.invalidParams();
    authenticated = true;
    return {};
  })
  .onRequest(methods.agent.session.new, ({ params }) => {
    log({ new: params });
    if (!authenticated) throw new RequestError(-32000, "Authentication required");
    const sessionId = `s-${process.pid}-${Math.random().toString(36).slice(2)}`;
    writeFileSync(file(sessionId), "");
    return { sessionId };
  })
  .onRequest(methods.agent.session.load, async ({ params, client }) => {
    log({ load: params });
    known(params.sessionId);
    const text = readFileSync(file(params.sessionId), "utf8");
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: `replayed: ${text}` } };
    await client.notify(methods.client.session.update, { sessionId: params.sessionId, update });
    return {};
  })
  .onRequest(methods.agent.session.resume, ({ params }) => {
    log({ resume: params });
    known(params.sessionId);
    return {};
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => {
    log({ cancel: params });
    cancelled();
  })
  .onRequest(methods.agent.session.prompt, async ({ params, client, signal }) => {
    const { sessionId, prompt } = params;
    const text = prompt[0].text;
    files = prompt.slice(1);
    log({ prompt: text, ...(prompt.length > 1 && { blocks: prompt.slice(1) }) });
    appendFileSync(file(sessionId), `${text}\n`);
    let program;
    try {
      program = JSON.parse(text);
    } catch {
      program = [{ say: `said: ${text}` }];
    }
    for (const step of program) {
      const stopReason = await carryOut(step, { client, sessionId, signal });
      if (stopReason) return { stopReason };
    }
    return { stopReason: "end_turn" };
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
