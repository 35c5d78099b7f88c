// clients.test.mjs -- other people's clients in Chromium, on a page of their own origin: cut, reloaded, and whole.
// (The AI SDK's is in faces.test.mjs.)

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
