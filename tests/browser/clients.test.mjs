// clients.test.mjs -- other people's clients in Chromium, on a page of their own origin: cut, reloaded, and whole.
// (The AI SDK's over a WebSocket is in faces.test.mjs.)

import assert from "node:assert/strict";
import { test } from "node:test";
import { bundle, site } from "./support/site.mjs";

/**
 * Pages with their clients: window.face has ask(text), comeBack(), text and end. comeBack finds the answer
 * again, on a page that was reloaded too; what a client must remember for that is in sessionStorage.
 */
const PAGES = {
  "OpenAI Responses": `
    import OpenAI from "openai";
    const openai = new OpenAI({ baseURL: BASE + "/v1", apiKey: TOKEN, dangerouslyAllowBrowser: true, maxRetries: 0 });
    const face = (window.face = { text: "", end: null, ask, comeBack });
    let last = -1;
    async function follow(stream) {
      for await (const event of stream) {
        last = event.sequence_number;
        if (event.type === "response.created") sessionStorage.id = event.response.id;
        if (event.type === "response.output_text.delta") face.text += event.delta;
        if (event.type === "response.completed") face.end = "completed";
      }
    }
    async function run(stream) {
      face.end = null;
      await stream.then(follow).catch(() => (face.end = "cut"));
    }
    function ask(input) {
      return run(openai.responses.create({ model: "script", input, conversation: "chat-1", background: true, stream: true }));
    }
    function comeBack() {
      const query = { stream: true, ...(last >= 0 ? { starting_after: last } : {}) };
      return run(openai.responses.retrieve(sessionStorage.id, query));
    }`,

  "AG-UI": `
    import { ThreadAgent, textOf } from "./support/thread_agent.mjs";
    const agent = new ThreadAgent({
      url: BASE + "/v1/ag-ui/script",
      threadId: "chat-1",
      headers: { authorization: "Bearer " + TOKEN },
      fetch: (url, init) => fetch(url, init),
    });
    const face = (window.face = { get text() { return textOf(agent); }, end: null, ask, comeBack });
    async function run(begin) {
      face.end = null;
      await begin({
        onRunFinishedEvent: () => void (face.end = "completed"),
        onRunFailed: () => ({ stopPropagation: true }),
      });
      face.end ??= "cut";
    }
    function ask(content) {
      agent.addMessage({ id: "1", role: "user", content });
      return run((listener) => agent.runAgent({}, listener));
    }
    function comeBack() {
      return run((listener) => agent.connectAgent({}, listener));
    }`,

  "AI SDK over SSE": `
    import { Chat } from "@ai-sdk/react";
    import { DefaultChatTransport } from "ai";
    const transport = new DefaultChatTransport({ api: BASE + "/v1/ai/chat", headers: { authorization: "Bearer " + TOKEN } });
    const face = (window.face = { get text() { return said(); }, end: null, ask, comeBack });
    const chat = new Chat({
      id: "chat-1",
      transport,
      onError: () => void (face.end ??= "cut"),
      onFinish: ({ isError, isDisconnect, finishReason }) => {
        if (isDisconnect) face.end = "cut";
        else if (!isError && finishReason === "stop") face.end = "completed";
      },
    });
    function said() {
      const parts = chat.messages.findLast(({ role }) => role === "assistant")?.parts ?? [];
      return parts.map((part) => (part.type === "text" ? part.text : "")).join("");
    }
    function ask(text) {
      face.end = null;
      return chat.sendMessage({ text });
    }
    function comeBack() {
      face.end = null;
      return chat.resumeStream();
    }`,

  "OpenAI Chat Completions": `
    import OpenAI from "openai";
    const openai = new OpenAI({ baseURL: BASE + "/v1", apiKey: TOKEN, dangerouslyAllowBrowser: true, maxRetries: 0 });
    const face = (window.face = { text: "", end: null, ask, comeBack });
    async function follow(stream) {
      for await (const { choices } of stream) {
        face.text += choices[0]?.delta.content ?? "";
        if (choices[0]?.finish_reason === "stop") face.end = "completed";
      }
    }
    async function comeBack() {
      face.end = null;
      face.text = "";
      const messages = [{ role: "user", content: sessionStorage.asked }];
      const body = { model: "script", stream: true, messages, conversation: "chat-1" };
      const stream = openai.chat.completions.create(body, { headers: { "Idempotency-Key": "the question" } });
      await stream.then(follow).catch(() => (face.end = "cut"));
    }
    function ask(text) {
      sessionStorage.asked = text;
      return comeBack();
    }`,

  A2A: `
    import { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory } from "@a2a-js/sdk/client";
    import { Role } from "@a2a-js/sdk";
    const face = (window.face = { text: "", end: null, ask, comeBack });
    const fetchImpl = (url, init) => fetch(url, { ...init, headers: { ...init?.headers, authorization: "Bearer " + TOKEN } });
    const factory = new ClientFactory({
      ...ClientFactoryOptions.default,
      transports: [new JsonRpcTransportFactory({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
    });
    const joined = (artifact) => (artifact?.parts ?? []).map(({ content }) => content.value).join("");
    async function follow(begin) {
      face.end = null;
      face.text = "";
      try {
        const client = await factory.createFromUrl(BASE + "/v1/a2a/script/");
        for await (const { payload: { $case, value } } of begin(client)) {
          if ($case === "task") {
            sessionStorage.id = value.id;
            face.text = joined(value.artifacts[0]);
          } else if ($case === "artifactUpdate") {
            face.text = (value.append ? face.text : "") + joined(value.artifact);
          } else if (value.status.state === 3) face.end = "completed";
        }
      } catch {
        face.end = "cut";
      }
    }
    function ask(text) {
      const parts = [{ content: { $case: "text", value: text } }];
      const message = { messageId: "m-1", contextId: "chat-1", role: Role.ROLE_USER, parts };
      return follow((client) => client.sendMessageStream({ message }));
    }
    function comeBack() {
      return follow((client) => client.resubscribeTask({ id: sessionStorage.id }));
    }`,

  MCP: `
    import { Client } from "@modelcontextprotocol/sdk/client/index.js";
    import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
    import { CallToolResultSchema } from "@modelcontextprotocol/sdk/types.js";
    const face = (window.face = { text: "", end: null, ask, comeBack });
    async function run(request) {
      face.end = null;
      face.text = "";
      const requestInit = { headers: { authorization: "Bearer " + TOKEN } };
      const reconnectionOptions = { initialReconnectionDelay: 10, maxReconnectionDelay: 10, reconnectionDelayGrowFactor: 1, maxRetries: 0 };
      const client = new Client({ name: "page", version: "1" });
      client.onerror = ({ message }) => /disconnected/.test(message) && (face.end ??= "cut");
      const sessionId = "chat-1";
      await client.connect(new StreamableHTTPClientTransport(new URL(BASE + "/v1/mcp"), { requestInit, reconnectionOptions, sessionId }));
      const onprogress = ({ message }) => void (face.text += message);
      await request(client, { onprogress, timeout: 120_000 });
      face.end = "completed";
    }
    const quiet = (work) => work.catch(() => void (face.end ??= "cut"));
    function ask(message) {
      return quiet(run((client, options) => client.callTool({ name: "script", arguments: { message } }, undefined, options)));
    }
    function comeBack() {
      return quiet(run(async (client, options) => {
        const { tasks } = await client.experimental.tasks.listTasks();
        const params = { taskId: tasks.at(-1).taskId };
        return client.request({ method: "tasks/result", params }, CallToolResultSchema, options);
      }));
    }`,

  "Durable Streams": `
    import { stream } from "@durable-streams/client";
    const face = (window.face = { text: "", end: null, ask, comeBack });
    const headers = { authorization: "Bearer " + TOKEN };
    async function comeBack() {
      face.end = null;
      face.text = "";
      try {
        const url = BASE + "/v1/stream/chat-1/" + sessionStorage.id;
        const response = await stream({ url, offset: "-1", live: "sse", json: true, headers, backoffOptions: { maxRetries: 0 } });
        response.closed.catch(() => void (face.end ??= "cut"));
        response.subscribeJson(({ items }) => {
          for (const { event, data } of items) {
            if (event === "token") face.text += data.text;
            if (event === "task.completed") face.end = "completed";
          }
        });
      } catch {
        face.end ??= "cut";
      }
    }
    async function ask(message) {
      const init = { method: "POST", headers: { ...headers, "content-type": "application/json" }, body: JSON.stringify({ message }) };
      const { task } = await (await fetch(BASE + "/v1/conversations/chat-1/tasks", init)).json();
      sessionStorage.id = task.task_id;
      return comeBack();
    }`,

  ACP: `
    import { client, methods } from "@agentclientprotocol/sdk";
    import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
    const face = (window.face = { text: "", end: null, ask, comeBack });
    const place = { sessionId: "chat-1", cwd: "/", mcpServers: [] };
    const { session } = methods.agent;
    function open() {
      face.end = null;
      face.text = "";
      const app = client({ name: "page" })
        .onNotification(methods.client.session.update, ({ params: { update } }) => {
          if (update.sessionUpdate === "agent_message_chunk") face.text += update.content.text;
        })
        .onNotification("_holdfast/turn_ended", (params) => params, () => void (face.end = "completed"));
      const connection = app.connect(createWebSocketStream(BASE.replace("http", "ws") + "/v1/acp?token=" + TOKEN));
      const cut = () => void (face.end ??= "cut");
      connection.closed.then(cut, cut);
      return connection.agent;
    }
    async function run(method, params) {
      const agent = open();
      await agent.request(methods.agent.initialize, { protocolVersion: 1, clientCapabilities: {} });
      return agent.request(method, params);
    }
    function ask(text) {
      const prompt = { sessionId: "chat-1", prompt: [{ type: "text", text }] };
      run(session.prompt, prompt).then(() => (face.end = "completed"), () => (face.end ??= "cut"));
    }
    function comeBack() {
      run(session.load, place).catch(() => (face.end ??= "cut"));
    }`,
};

for (const [name, program] of Object.entries(PAGES))
  test(`${name} over a cut and a reload`, { timeout: 180_000 }, async (t) => {
    const { page, world, token } = await site(t, (base, token) =>
      bundle(`const BASE = ${JSON.stringify(base)}, TOKEN = ${JSON.stringify(token)};\n${program}`),
    );
    const shows = (text, end) =>
      page.waitForFunction(([text, end]) => window.face?.text === text && window.face.end === end, [text, end]);
    const comeBack = () => page.evaluate(() => void window.face.comeBack());

    const gate = world.gate();
    await page.waitForFunction(() => window.face);
    const steps = JSON.stringify([{ token: "one " }, { wait: gate.path }, { token: "two" }]);
    await page.evaluate((text) => void window.face.ask(text), steps);
    await shows("one ", null);
    await world.network.cut();
    await shows("one ", "cut");
    await world.network.restore();
    await comeBack();
    await shows("one ", null);
    await page.reload();
    await page.waitForFunction(() => window.face);
    await comeBack();
    await shows("one ", null);
    await gate.open();
    await shows("one two", "completed");
    assert.equal((await world.ended(token, "chat-1")).text, "one two");
  });
