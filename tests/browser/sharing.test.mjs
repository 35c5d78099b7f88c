// sharing.test.mjs -- a conversation for others by a link, and one's own on another device by a code.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import decode from "../../web/chat/node_modules/qr/decode.js";
import { scene } from "./support/scene.mjs";

/** Makes a link in the page, and returns its address. */
async function shared(chat, { writer } = {}) {
  const { page } = chat;
  await page.click("#more");
  await page.click("#conversation-menu button:text-is('Share')");
  if (writer) {
    await page.selectOption("#share-dialog select[aria-label='What the link is good for']", "true");
    await page.fill("#share-dialog input[aria-label='Who writes']", writer);
  }
  await page.click("#share-dialog form button[type=submit]");
  await page.waitForSelector("#share-dialog [data-share-id]");
  return page.inputValue("#link");
}

/** The address in another browser. */
async function visit(its, address) {
  const chat = await its.chat({ profile: await its.profile(), hash: new URL(address).hash });
  return chat;
}

scene("a link shows the conversation live, to read, and nothing else; taken back, it is good no more", async (its) => {
  const { chat, puppet } = await its.asked();
  const guest = await visit(its, await shared(chat));
  await guest.waitForText("Deep – very");
  await guest.waitForText("Shared with you to read", "#role");
  await guest.waitForText("How deep is the sea?", "#title");
  puppet.say(" deep");
  await guest.waitForText("Deep – very deep");
  puppet.emit("input_required", { input_id: "q1", kind: "approval", prompt: "Go on?" });
  await guest.waitForText("It waits for an answer.", ".question .outcome");
  assert.equal(await guest.page.locator("#composer, #side, #more, .question button, .cancel, .again, .inspect").count(), 0);
  await chat.page.keyboard.press("Escape");
  await chat.page.click(".question.open button:text-is('Approve')");
  await guest.waitForText("Approved", ".question .outcome");
  puppet.exit();
  await guest.waitForStatus("completed");
  await guest.page.reload();
  await guest.waitForText("Deep – very deep");

  await chat.page.click("#more");
  await chat.page.click("#conversation-menu button:text-is('Share')");
  await chat.page.click("[data-share-id] button");
  await chat.page.waitForSelector("[data-share-id]", { state: "detached" });
  await guest.waitForText("This link is good no more", "#gone h1");
  assert.equal(await guest.page.locator(".turn").count(), 0);
});

scene("who may write by a link writes under a name, and the owner sees both", async (its) => {
  const { chat, puppet } = await its.asked();
  puppet.exit();
  await chat.waitForStatus("completed");
  const member = await visit(its, await shared(chat, { writer: "Bob" }));
  await member.waitForText("Shared with you: you write as Bob", "#role");
  await member.waitForText("Deep – very");
  await member.ask("And how wide?");
  const second = await its.stage.puppet();
  assert.equal(second.run.input, "And how wide?");
  second.say("Wide.");
  await chat.waitForText("Wide.", ".turn:nth-of-type(2) .answer");
  await member.page.click("#stop");
  await member.page.waitForSelector(".turn[data-status=cancelled]");
  await chat.page.waitForSelector(".turn[data-status=cancelled]");
});

scene("who answers by a link decides about a call, and is not offered those to come", async (its) => {
  const { chat, puppet } = await its.asked();
  const guest = await its.chat({ profile: await its.profile(), hash: await chat.linkWith("read", "answer") });
  const options = (...ids) => ids.map((id) => ({ id, name: id, kind: id === "reject" ? "reject_once" : id === "once" ? "allow_once" : "allow_always" }));
  const ask = (input_id, ...ids) => puppet.emit("input_required", { input_id, kind: "approval", prompt: "May I?", options: options(...ids) });
  ask("gateways", "once", "conversation", "reject");
  ask("agents", "once", "session", "reject"); // an agent's own, which takes what it offers
  const offered = async (its, id) => {
    await its.page.waitForSelector(`[data-input-id=${id}].open button`);
    return its.page.locator(`[data-input-id=${id}] button`).allTextContents();
  };
  assert.deepEqual(await offered(chat, "gateways"), ["once", "conversation", "reject"]);
  assert.deepEqual(await offered(guest, "gateways"), ["once", "reject"]);
  assert.deepEqual(await offered(guest, "agents"), ["once", "session", "reject"]);
  await guest.page.click("[data-input-id=gateways] button:text-is('once')");
  assert.equal((await puppet.heard.take()).answer, "once");
  puppet.exit();
  await guest.waitForStatus("completed");
});

scene("links and codes have the public address, where the operator gives one", async (its) => {
  await its.reconfigure({ public_url: "https://chat.example.org/ask/" });
  const { chat, puppet } = await its.asked();
  assert.match(await shared(chat), /^https:\/\/chat\.example\.org\/ask\/#share=[\w.-]+$/);
  await chat.page.keyboard.press("Escape");
  await chat.page.click("#hand-over");
  assert.match(await read(chat), /^https:\/\/chat\.example\.org\/ask\/#handover=[\w-]+$/);
  puppet.exit();
});

scene("a part of a link is none", async (its) => {
  const chat = await its.chat({ hash: "#share=abc" });
  await chat.waitForText("This link is good no more", "#gone h1");
});

/** The text of the code for cameras, read from its picture. */
async function read(chat) {
  await chat.page.waitForSelector(".qr[data-ready]");
  const png = await chat.page.locator(".qr").screenshot();
  const picture = await chat.page.evaluate(async (base64) => {
    const bitmap = await createImageBitmap(new Blob([Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0))]));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const brush = canvas.getContext("2d");
    brush.drawImage(bitmap, 0, 0);
    return { width: bitmap.width, height: bitmap.height, data: [...brush.getImageData(0, 0, bitmap.width, bitmap.height).data] };
  }, png.toString("base64"));
  return decode({ ...picture, data: Uint8Array.from(picture.data) });
}

scene("a code brings one's conversations to another device, once, and that device's own ones stay", async (its) => {
  const { chat, puppet } = await its.asked();
  await chat.page.click("#hand-over");
  const address = await read(chat);
  assert.match(address, /^http:\/\/127\.0\.0\.1:\d+\/#handover=[\w-]+$/);

  const profile = await its.profile({ viewport: { width: 390, height: 760 }, hasTouch: true, isMobile: true });
  const phone = await its.chat({ profile });
  await phone.ask("Mine");
  (await its.stage.puppet()).exit();
  await phone.waitForStatus("completed");
  await phone.page.goto(address);
  await phone.page.waitForSelector("#arrival button");
  await phone.page.waitForFunction(() => document.querySelector("#arrival").textContent.includes("own 1 conversation"));
  await phone.page.click("#arrival button:text-is('Continue here')");
  await phone.page.waitForSelector("#composer");
  assert.equal(new URL(phone.page.url()).hash, "");
  await phone.page.click("#menu");
  await phone.page.click("#conversations a:has-text('How deep is the sea?')");
  await phone.waitForText("Deep – very");
  puppet.say(" indeed");
  for (const each of [chat, phone]) await each.waitForText("Deep – very indeed");
  assert.equal(await phone.page.locator("#conversations a:has-text('Mine')").count(), 0);
  await phone.page.reload();
  await phone.waitForText("Deep – very indeed");

  const other = await its.chat({ hash: new URL(address).hash });
  await other.page.click("#arrival button:text-is('Continue here')");
  await other.page.waitForSelector("#arrival [role=alert]:has-text('good no more')");
  assert.match(its.faults.pop(), /404 .*\/v1\/handover\/token/); // the browser itself says that

  await phone.page.click("#menu");
  await phone.page.click("#hand-over");
  await phone.page.click("#handover-dialog button:text-is('Leave on this device')");
  await phone.page.waitForSelector("#conversations a:has-text('Mine')", { state: "attached" });
  assert.equal(await phone.page.locator("#conversations a:has-text('How deep')").count(), 0);
  puppet.exit();
});

scene("a conversation is saved whole, and taken in by somebody else; a file that is none says why", async (its) => {
  const { chat, puppet } = await its.asked();
  puppet.exit();
  await chat.waitForStatus("completed");
  const download = chat.page.waitForEvent("download");
  await chat.page.click("#more");
  await chat.page.click("#conversation-menu button:text-is('Save everything')");
  const file = await download;
  assert.equal(file.suggestedFilename(), "How deep is the sea.jsonl");
  const buffer = await readFile(await file.path());
  assert.ok(String(buffer).includes('"event":"task.completed"'), "with its events");

  const other = await its.chat({ profile: await its.profile() });
  await other.waitForState("live");
  const take = (name, bytes) =>
    other.page.setInputFiles("#side footer input[type=file]", { name, mimeType: "application/x-ndjson", buffer: bytes });
  await take("none.jsonl", Buffer.from("{no\n"));
  await other.page.waitForSelector("#side footer [role=alert]:has-text('none.jsonl: ')");
  assert.match(its.faults.pop(), / 400 .*\/v1\/import/);
  await take("saved.jsonl", buffer);
  await other.waitForText("Deep – very");
  await other.waitForText("How deep is the sea?", "#title");
  await other.ask("And how wide?");
  const next = await its.stage.puppet();
  assert.deepEqual(next.run.history?.map(({ content }) => content) ?? [], ["How deep is the sea?", "Deep – very"]);
  next.exit();
});
