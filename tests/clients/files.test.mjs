// files.test.mjs -- each face's own client, as it comes from the registry: files in its question, and one in its answer.
//
// The agent reads what it was given, and gives a file of its own where the protocol can say so.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import { Chat } from "@ai-sdk/react";
import * as modern from "@modelcontextprotocol/client";
import * as legacy from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { DefaultChatTransport } from "ai";
import OpenAI from "openai";
import { Acp } from "./support/acp.mjs";
import { bindings, clientOf, message } from "./support/a2a.mjs";
import { World } from "./support/world.mjs";

const PNG = Buffer.from("iVBORw0KGgo=", "base64");
const PDF = Buffer.from("%PDF-1.7 ü");
const url = (type, bytes) => `data:${type};base64,${bytes.toString("base64")}`;

const READS = `
const fs = require("fs"), lines = require("readline").createInterface({ input: process.stdin });
const shown = (bytes) => (bytes.length > 1000 ? bytes.length : bytes.toString("base64"));
const say = (line) => process.stdout.write(JSON.stringify(line) + "\\n");
lines.once("line", (line) => {
  const run = JSON.parse(line), path = require("path").join(require("os").tmpdir(), "gift-" + process.pid + ".txt");
  const seen = (run.parts ?? []).map((p) => p.type === "text" ? p.text
    : [p.media_type, p.name ?? "", shown(fs.readFileSync(p.path))]);
  fs.writeFileSync(path, "a gift");
  say({ call: "file", call_id: "c", path, name: "gift.txt", media_type: "text/plain" });
  lines.once("line", () => {
    fs.unlinkSync(path);
    say({ event: "final_answer", data: { output: JSON.stringify(seen) } });
    process.stdin.destroy();
  });
});
`;
const agents = [
  { name: "reads", kind: "exec", command: [process.execPath, "-e", READS], kept: false, after_restart: "fail" },
];

let world;
let token;
before(async () => {
  world = await new World({ agents }).open();
  ({ token } = await world.guest());
});
after(() => world.close());

const seen = [
  "look",
  ["image/png", "", PNG.toString("base64")],
  ["application/pdf", "a b.pdf", PDF.toString("base64")],
];
const withName = (name) => ["look", ["image/png", name, PNG.toString("base64")], seen[2]];
const read = async (path, more = {}) =>
  fetch(new URL(path, world.base), { headers: { authorization: `Bearer ${token}` }, ...more });

async function upload(conversation, bytes, type, name) {
  const response = await read(`/v1/conversations/${conversation}/files`, {
    method: "POST",
    body: bytes,
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": type,
      "content-disposition": `attachment; filename="${name}"`,
    },
  });
  assert.equal(response.status, 201);
  return await response.json();
}

test("AI SDK: file parts both ways, in data and by path", async () => {
  const big = await upload("ai-files", Buffer.alloc(400_000, "x"), "text/plain", "big.txt");
  const transport = new DefaultChatTransport({
    api: `${world.base}/v1/ai/chat`,
    headers: { authorization: `Bearer ${token}` },
  });
  const errors = [];
  const chat = new Chat({ id: "ai-files", transport, onError: (error) => errors.push(error) });
  await chat.sendMessage({
    parts: [
      { type: "text", text: "look" },
      { type: "file", mediaType: "image/png", url: url("image/png", PNG) },
      { type: "file", mediaType: "text/plain", url: `/v1/conversations/ai-files/files/${big.file_id}` },
    ],
  });
  assert.deepEqual(errors, []);
  const parts = chat.messages.at(-1).parts;
  const [text, image, other] = JSON.parse(parts.findLast(({ type }) => type === "text").text);
  assert.deepEqual([text, image], seen.slice(0, 2));
  assert.deepEqual(other, ["text/plain", "big.txt", 400_000]);
  const file = parts.find(({ type }) => type === "file");
  assert.equal(file.mediaType, "text/plain");
  assert.equal(await (await read(file.url)).text(), "a gift");
  await chat.sendMessage({ parts: [{ type: "file", mediaType: "image/png", url: "https://elsewhere/x.png" }] });
  assert.match(errors[0].message, /of a file must be a data URL/);
});

test("Chat Completions: image_url and file", async () => {
  const client = new OpenAI({ apiKey: token, baseURL: `${world.base}/v1`, maxRetries: 0 });
  const content = [
    { type: "text", text: "look" },
    { type: "image_url", image_url: { url: url("image/png", PNG) } },
    { type: "file", file: { filename: "a b.pdf", file_data: url("application/pdf", PDF) } },
  ];
  const messages = [{ role: "user", content }];
  const answer = await client.chat.completions.create({ model: "reads", messages });
  assert.deepEqual(JSON.parse(answer.choices[0].message.content), seen);
  const later = [...messages, { role: "assistant", content: "ok" }, { role: "user", content: "and now?" }];
  const again = await client.chat.completions.create({ model: "reads", messages: later });
  assert.equal(again.choices[0].message.content, "[]");
});

test("Responses: input_image and input_file", async () => {
  const client = new OpenAI({ apiKey: token, baseURL: `${world.base}/v1`, maxRetries: 0 });
  const content = [
    { type: "input_text", text: "look" },
    { type: "input_image", image_url: url("image/png", PNG), detail: "auto" },
    { type: "input_file", filename: "a b.pdf", file_data: url("application/pdf", PDF) },
  ];
  const response = await client.responses.create({ model: "reads", input: [{ role: "user", content }] });
  assert.deepEqual(JSON.parse(response.output_text), seen);

  const told = [];
  const stream = client.responses.stream({ model: "reads", input: "look" });
  stream.on("response.output_text.annotation.added", ({ annotation }) => void told.push(annotation));
  const cited = ({ output }) => output.flatMap((item) => (item.content ?? []).flatMap((part) => part.annotations));
  const streamed = await stream.finalResponse();
  for (const citations of [told, cited(streamed), cited(response), cited(await client.responses.retrieve(response.id))]) {
    assert.equal(citations.length, 1);
    const [{ type, container_id, file_id, filename }] = citations;
    assert.deepEqual([type, filename], ["container_file_citation", "gift.txt"]);
    const file = await client.containers.files.content.retrieve(file_id, { container_id });
    assert.equal(await file.text(), "a gift");
  }
});

test("AG-UI: parts with a source", async () => {
  const agent = new HttpAgent({
    url: `${world.base}/v1/ag-ui/reads`,
    threadId: "ag-files",
    headers: { authorization: `Bearer ${token}` },
  });
  const source = (type, bytes) => ({ type: "data", value: bytes.toString("base64"), mimeType: type });
  agent.addMessage({
    id: "m1",
    role: "user",
    content: [
      { type: "text", text: "look" },
      { type: "image", source: source("image/png", PNG) },
      { type: "document", source: source("application/pdf", PDF) },
    ],
  });
  const given = [];
  await agent.runAgent({}, { onCustomEvent: ({ event }) => void given.push(event) });
  const answer = JSON.parse(agent.messages.at(-1).content);
  assert.deepEqual(answer, [seen[0], seen[1], ["application/pdf", "", PDF.toString("base64")]]);
  const file = given.find(({ name }) => name === "holdfast.file").value;
  assert.equal(await (await read(`/v1/conversations/ag-files/files/${file.file_id}`)).text(), "a gift");
});

for (const [name, Transport] of bindings)
  test(`${name}: parts with raw bytes`, async () => {
    const client = await clientOf(world, token, Transport, "reads");
    const part = ($case, value, filename, mediaType) => ({ content: { $case, value }, metadata: undefined, filename, mediaType });
    const parts = [
      part("text", "look", "", ""),
      part("raw", PNG, "dot.png", "image/png"),
      part("raw", PDF, "a b.pdf", "application/pdf"),
    ];
    const task = await client.sendMessage(message("", { parts }));
    assert.deepEqual(JSON.parse(task.artifacts[0].parts.at(-1).content.value), withName("dot.png"));
    const streamed = [];
    for await (const { payload } of client.sendMessageStream(message("look")))
      if (payload.$case === "artifactUpdate") streamed.push(payload.value.artifact);
    const file = streamed.find(({ artifactId }) => artifactId !== "answer");
    const ended = await client.getTask({ id: task.id });
    for (const { name, parts: [{ content, mediaType }] } of [task.artifacts[1], ended.artifacts[1], file]) {
      assert.deepEqual([name, content.$case, mediaType], ["gift.txt", "url", "text/plain"]);
      assert.equal(await (await read(content.value)).text(), "a gift");
    }
  });

for (const [name, Sdk, Transport] of [
  ["MCP 2025-11-25", legacy.Client, StreamableHTTPClientTransport],
  ["MCP 2026-07-28", modern.Client, modern.StreamableHTTPClientTransport],
])
  test(`${name}: a link in the result`, async () => {
    const client = new Sdk({ name: "test", version: "1" }, { versionNegotiation: { mode: "auto" } });
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    await client.connect(new Transport(new URL(`${world.base}/v1/mcp`), { requestInit }));
    const { content } = await client.callTool({ name: "reads", arguments: { message: "look" } });
    const [text, link] = content;
    assert.deepEqual([content.length, text.type, link.type], [2, "text", "resource_link"]);
    assert.deepEqual([link.name, link.mimeType, link.size], ["gift.txt", "text/plain", 6]);
    assert.equal(await (await read(link.uri)).text(), "a gift");
    await client.close();
  });

test("ACP: blocks with an image, a sound and resources", async () => {
  const acp = await Acp.open(world, token);
  const { image, audio, embeddedContext } = acp.agent.agentCapabilities.promptCapabilities;
  assert.deepEqual([image, audio, embeddedContext], [true, true, true]);
  const sessionId = await acp.begin();
  await acp.request("session/prompt", {
    sessionId,
    prompt: [
      { type: "text", text: "look" },
      { type: "image", data: PNG.toString("base64"), mimeType: "image/png" },
      { type: "resource", resource: { uri: "file:///x", mimeType: "text/plain", text: "within" } },
      { type: "resource", resource: { uri: "file:///y", mimeType: "application/pdf", blob: PDF.toString("base64") } },
      { type: "resource_link", name: "far", uri: "https://elsewhere/" },
    ],
  });
  const said = acp.updates.filter(({ sessionUpdate }) => sessionUpdate === "agent_message_chunk").map(({ content }) => content);
  assert.deepEqual(JSON.parse(said.at(-1).text), [
    "look",
    seen[1],
    "within",
    ["application/pdf", "", PDF.toString("base64")],
    "[far](https://elsewhere/)",
  ]);
  const link = said.find(({ type }) => type === "resource_link");
  assert.deepEqual([link.name, link.mimeType, link.size], ["gift.txt", "text/plain", 6]);
  assert.equal(await (await read(link.uri)).text(), "a gift");
  await acp.close();
});
