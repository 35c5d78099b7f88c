// sharing.test.mjs -- search, pins, shares, handovers and exports, against the built gateway.

import assert from "node:assert/strict";
import { test } from "node:test";
import WebSocket from "ws";
import { Gateway } from "../../../../tests/browser/support/gateway.mjs";
import { exportFile, exportLines, importFile } from "../../dist/export.js";
import { connect, MemoryStore } from "../../dist/index.js";
import { marked, search } from "../../dist/search.js";
import { handover, share, shares, takeOver, unshare } from "../../dist/sharing.js";

async function until(observable, condition) {
  for await (const now of observable.changes()) if (condition(now)) return now;
}

/** Runs with a gateway and a guest who has asked in two conversations. */
async function withGuest(body) {
  const gateway = new Gateway({});
  await gateway.start();
  const url = `ws://127.0.0.1:${gateway.port}/v1/ws`;
  const clients = [];
  const open = (options = {}) => {
    const client = connect(url, { store: new MemoryStore(), WebSocket, ...options });
    clients.push(client);
    return client;
  };
  const client = open();
  for (const [id, message] of [["c-1", "the Red Sea"], ["c-2", "the red sea, and more"]]) {
    await (await client.conversation(id).ask(message).started).result();
  }
  try {
    await body({ client, open, url });
  } finally {
    clients.forEach((one) => one.close());
    await gateway.remove();
  }
}

test("what was found, page by page, and pins", { timeout: 120_000 }, () => withGuest(async ({ client }) => {
  const asked = [];
  let titles;
  for await (const { conversations, messages } of search(client, '"red sea" the', { limit: 1 })) {
    titles ??= conversations.map(({ title, matches }) => marked(title, matches));
    asked.push(...messages.filter(({ role }) => role === "user").map(({ text, matches }) => marked(text, matches)));
  }
  const the = [{ text: "the", isMatch: true }, { text: " ", isMatch: false }];
  const newer = [...the, { text: "red sea", isMatch: true }, { text: ", and more", isMatch: false }];
  assert.deepEqual(asked, [newer, [...the, { text: "Red Sea", isMatch: true }]]);
  assert.deepEqual(titles, [newer]);

  await client.request("pin", { conversation_id: "c-1", pinned: true });
  await client.request("archive", { conversation_id: "c-2", archived: true });
  const { conversations } = await client.request("conversations", { archived: false });
  assert.deepEqual(conversations.map(({ conversation_id, pinned }) => [conversation_id, pinned]), [["c-1", true]]);
}));

test("a link reads until it is taken back, and a member asks", { timeout: 120_000 }, () => withGuest(async ({ client, open }) => {
  const { token, share: link } = await share(client, "c-1");
  const reader = open({ token });
  const { messages } = await reader.request("open", { conversation_id: "c-1" });
  assert.equal(messages[0].content, "the Red Sea");
  assert.deepEqual(reader.welcome.rights.conversations, [{ id: "c-1", rights: ["read"] }]);
  await assert.rejects(reader.request("open", { conversation_id: "c-2" }), { code: "not_found" });
  const member = open({ token: (await share(client, "c-1", { rights: ["read", "ask"], actor: "bob" })).token });
  await (await member.conversation("c-1").ask("count to 2").started).result();
  assert.deepEqual((await shares(client)).map(({ actor }) => actor), ["bob", undefined]);
  assert.equal(await unshare(client, link.share_id), true);
  assert.equal(await unshare(client, link.share_id), false);
  await until(reader, ({ state }) => state === "closed");
  assert.deepEqual((await shares(client, "c-1")).map(({ actor }) => actor), ["bob"]);
}));

test("the same owner on another device, with a code that is good once", { timeout: 120_000 }, () => withGuest(async ({ client, open, url }) => {
  const { code } = await handover(client);
  const store = new MemoryStore();
  await takeOver(url, code, { store });
  const other = open({ store });
  await until(other, ({ owner }) => owner);
  assert.equal(other.owner, client.owner);
  await assert.rejects(takeOver(url, code, { store: new MemoryStore() }), { code: "not_found" });
}));

test("a conversation goes out, and comes in as another one", { timeout: 120_000 }, () => withGuest(async ({ client }) => {
  const file = await exportFile(client, client.conversation("c-1"));
  const lines = [];
  for await (const line of exportLines(client, client.conversation("c-1"))) lines.push(line);
  assert.deepEqual((await file.text()).trim().split("\n").map((line) => JSON.parse(line)), lines);
  assert.equal(lines.at(-1).event, "task.completed");
  const copy = await importFile(client, file, "copied");
  const said = async ({ id }) => (await client.request("history", { conversation_id: id })).messages.map(({ content }) => content);
  assert.deepEqual(await said(copy), await said({ id: "c-1" }));
}));
