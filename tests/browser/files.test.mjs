// files.test.mjs -- files that go with a message: picked, pasted, dropped, refused, edited.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { detail, scene } from "./support/scene.mjs";

const PNG = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
const picked = (name, mimeType, buffer) => ({ name, mimeType, buffer });

/** Gives the page files as a user does who pastes them into the field, or drops them on the page. */
const bring = (page, how, files) =>
  page.evaluate(
    ([how, files]) => {
      const data = new DataTransfer();
      for (const [name, text] of files) data.items.add(new File([text], name, { type: "text/plain" }));
      const init = { bubbles: true, cancelable: true };
      const field = document.querySelector("#message");
      if (how === "paste") return field.dispatchEvent(new ClipboardEvent("paste", { ...init, clipboardData: data }));
      for (const name of ["dragover", "drop"]) field.dispatchEvent(new DragEvent(name, { ...init, dataTransfer: data }));
    },
    [how, files],
  );

const there = (n) => `#composer .file[data-state=there] >> nth=${n - 1}`;

scene("files that are picked go with the message, to the agent and over a reload", async (its) => {
  const prepare = (page) =>
    page.addInitScript(() => {
      window.refused = [];
      addEventListener("securitypolicyviolation", ({ violatedDirective }) => window.refused.push(violatedDirective));
    });
  const chat = await its.chat({ prepare });
  const { page } = chat;
  const text = Buffer.from("depth: 10,935 m\n");
  await page.setInputFiles("#composer input[type=file]", [picked("mäp.png", "image/png", PNG), picked("notes.txt", "text/plain", text)]);
  await page.waitForSelector(there(2));
  await page.waitForSelector("#composer .file canvas:visible");
  await chat.ask("What is in these?");
  const puppet = await its.stage.puppet();
  assert.equal(puppet.run.input, "What is in these?");
  const files = puppet.run.parts.filter(({ type }) => type === "file");
  assert.deepEqual(files.map(({ name }) => name), ["mäp.png", "notes.txt"]);
  assert.deepEqual(await readFile(files[0].path), PNG);
  assert.deepEqual(await readFile(files[1].path), text);
  assert.equal(await page.locator("#composer .file").count(), 0);
  puppet.say("A map.");
  puppet.exit();
  await chat.waitForStatus("completed");
  await page.reload();
  await page.waitForSelector(".turn .of-question .file canvas:visible");
  assert.deepEqual(await chat.allTexts(".turn .file-name"), ["mäp.png", "notes.txt"]);
  const download = page.waitForEvent("download");
  await page.click(".turn .file button:has-text('notes.txt')");
  const file = await download;
  assert.equal(file.suggestedFilename(), "notes.txt");
  assert.deepEqual(await readFile(await file.path()), text);
  assert.deepEqual(await page.evaluate(() => window.refused), []);
});

detail("a picture is shown large, is saved from there, and gives the focus back; what is no picture is saved", async (its) => {
  const chat = await its.chat();
  const { page } = chat;
  await page.setInputFiles("#composer input[type=file]", [picked("map.png", "image/png", PNG), picked("none.png", "image/png", Buffer.from("no picture"))]);
  await page.waitForSelector(there(2));
  await chat.ask("What is in these?");
  const puppet = await its.stage.puppet();
  puppet.exit();
  await chat.waitForStatus("completed");
  await page.waitForSelector(".turn .file canvas:visible");
  const card = ".turn .file button[title='Show map.png']";
  const isFocused = () => page.waitForFunction((card) => document.activeElement === document.querySelector(card), card);
  const open = async (how) => {
    await how();
    await page.waitForSelector(".large-picture[open] canvas:visible");
  };
  const closed = async () => {
    await page.waitForSelector(".large-picture", { state: "detached" });
    await isFocused();
  };
  await open(() => page.click(card));
  const download = page.waitForEvent("download");
  await page.click(".large-picture button:text-is('Save')");
  assert.equal((await download).suggestedFilename(), "map.png");
  assert.deepEqual(await readFile(await (await download).path()), PNG);
  await page.keyboard.press("Escape");
  await closed();
  await open(() => page.keyboard.press("Enter"));
  await page.click(".large-picture button:text-is('Close')");
  await closed();
  await open(() => page.keyboard.press("Enter"));
  await page.mouse.click(5, 5); // beside it
  await closed();
  const saved = page.waitForEvent("download");
  await page.click(".turn .file button[title='Show none.png']");
  assert.equal((await saved).suggestedFilename(), "none.png");
  await page.waitForSelector(".turn .file button[title='Save none.png']");
  assert.equal(await page.locator(".large-picture").count(), 0);
});

detail("files are pasted, dropped and removed; alone they are a message, and an edited question keeps them", async (its) => {
  const chat = await its.chat();
  const { page } = chat;
  await bring(page, "paste", [["pasted.txt", "one"]]);
  await page.waitForSelector(there(1));
  await bring(page, "drop", [["dropped.txt", "two"], ["wrong.txt", "three"]]);
  await page.waitForSelector(there(3));
  assert.equal(await page.locator("#drop").count(), 0);
  await page.click("button[aria-label='Remove wrong.txt']");
  await page.waitForSelector("#message:focus");
  await page.keyboard.press("Enter");
  const puppet = await its.stage.puppet();
  const names = ({ run }) => run.parts.filter(({ type }) => type === "file").map(({ name }) => name);
  assert.equal(puppet.run.input, "");
  assert.deepEqual(names(puppet), ["pasted.txt", "dropped.txt"]);
  puppet.say("Two files.");
  puppet.exit();
  await chat.waitForStatus("completed");
  await page.click(".of-asked button[title='Edit and ask again']");
  await page.fill(".editor textarea", "Compare them");
  await page.keyboard.press("Enter");
  const edited = await its.stage.puppet();
  assert.equal(edited.run.input, "Compare them");
  assert.deepEqual(names(edited), ["pasted.txt", "dropped.txt"]);
  edited.exit();
});

detail("a file that is pasted while nothing is written goes to the field, too", async (its) => {
  const chat = await its.chat();
  const { page } = chat;
  await chat.waitForState("live");
  const paste = (where) =>
    page.evaluate((where) => {
      const clipboardData = new DataTransfer();
      clipboardData.items.add(new File(["depths"], "depths.txt", { type: "text/plain" }));
      const target = document.querySelector(where);
      target.focus();
      target.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    }, where);
  await paste("#search"); // what is pasted into another field is that field's
  await paste("#thread");
  await page.waitForSelector("#composer .file[data-state=there]");
  assert.equal(await page.locator("#composer .file").count(), 1);
  await page.waitForSelector("#message:focus");
  await paste("#message");
  await page.waitForSelector("#composer .file >> nth=1");
  assert.equal(await page.locator("#composer .file").count(), 2);
});

detail("a dialog keeps files that are pasted or dropped from the field below it, and a page that takes none is not left", async (its) => {
  const { chat, puppet } = await its.asked();
  const { page } = chat;
  puppet.exit();
  await chat.waitForStatus("completed");
  /** Whether the page has dealt with it: the browser would leave the page to show a file. */
  const give = (page, name) =>
    page.evaluate((name) => {
      const files = new DataTransfer();
      files.items.add(new File(["depths"], "depths.txt", { type: "text/plain" }));
      const its = { bubbles: true, cancelable: true };
      const event = name === "paste" ? new ClipboardEvent(name, { clipboardData: files, ...its }) : new DragEvent(name, { dataTransfer: files, ...its });
      (document.querySelector("dialog[open]") ?? document.querySelector("#turns, #gone, main")).dispatchEvent(event);
      return event.defaultPrevented;
    }, name);
  await page.focus("#thread");
  await page.keyboard.press("?");
  await page.waitForSelector("#shortcuts[open]");
  assert.equal(await give(page, "paste"), false);
  for (const name of ["dragover", "drop"]) assert.equal(await give(page, name), true);
  assert.equal(await page.locator("#drop").count(), 0);
  await page.keyboard.press("Escape");
  await page.waitForSelector("#shortcuts", { state: "hidden" });
  await give(page, "paste");
  await page.waitForSelector("#composer .file");
  assert.equal(await page.locator("#composer .file").count(), 1);

  const [reader, writer] = await Promise.all(
    [["read"], ["read", "ask"]].map(async (rights) => its.chat({ profile: await its.profile(), hash: await chat.linkWith(...rights) })),
  );
  for (const visitor of [reader, writer]) await visitor.waitForText("Deep – very");
  for (const name of ["dragover", "drop"]) assert.equal(await give(reader.page, name), true);
  await give(writer.page, "drop");
  await writer.page.waitForSelector("#composer .file[data-state=there]");
});

detail("files at the field are kept over a reload, also one that is on its way", async (its) => {
  const chat = await its.chat();
  const { page } = chat;
  await bring(page, "drop", [["there.txt", "one"]]);
  await page.waitForSelector(there(1));
  its.network.deafen(); // the gateway gets the next one, and nobody here hears of it
  const asked = page.waitForRequest((request) => request.method() === "POST" && request.url().includes("/files?upload="));
  await bring(page, "drop", [["on-its-way.txt", "two"]]);
  await asked;
  await page.waitForSelector("#composer .file[data-state=sending]");
  await page.fill("#message", "What is in these?");
  await its.network.cut();
  await its.network.restore();
  await page.reload();
  await page.waitForSelector(there(2));
  assert.deepEqual(await chat.allTexts("#composer .file-name"), ["there.txt", "on-its-way.txt"]);
  await page.press("#message", "Enter");
  const puppet = await its.stage.puppet();
  const files = puppet.run.parts.filter(({ type }) => type === "file");
  assert.deepEqual(await Promise.all(files.map(async ({ path }) => String(await readFile(path)))), ["one", "two"]);
  puppet.exit();
  await chat.waitForStatus("completed");
  await page.reload();
  await chat.waitForStatus("completed");
  assert.equal(await page.locator("#composer .file").count(), 0, "what was sent stands there no more");
  await page.click("#new");
  await page.waitForSelector("#empty");
  await bring(page, "drop", [["removed.txt", "three"]]);
  await page.waitForSelector(there(1));
  await page.click("button[aria-label='Remove removed.txt']");
  await page.reload();
  await page.waitForSelector("#empty");
  await chat.waitForState("live");
  assert.equal(await page.locator("#composer .file").count(), 0);
  its.faults = its.faults.filter((fault) => !/404 .*\/files\?upload=/.test(fault)); // the second may not have been begun
});

scene("a file that the gateway refuses says why, and goes with nothing", async (its) => {
  await its.reconfigure({ limits: { file_mib: 0 } });
  const chat = await its.chat();
  await bring(chat.page, "drop", [["a.txt", "one"]]);
  await chat.waitForText("This gateway takes no files.", "#composer .file[data-state=refused] .file-size");
  assert.match(its.faults.splice(0).join("\n"), /^Failed to load resource: [^\n]* 400 [^\n]*$/, "one try");
  await chat.ask("Without it, then");
  const puppet = await its.stage.puppet();
  assert.equal(puppet.run.input, "Without it, then");
  assert.equal(puppet.run.parts, undefined);
  puppet.exit();
  await chat.waitForStatus("completed");
});

detail("a text that is too long becomes a file", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  const text = "word ".repeat(14_000);
  await chat.page.fill("#message", text);
  await chat.page.click("#as-file");
  await chat.page.waitForSelector(there(1));
  await chat.ask("Read this");
  const puppet = await its.stage.puppet();
  const [{ path }] = puppet.run.parts.filter(({ type }) => type === "file");
  assert.equal(await readFile(path, "utf8"), text);
  puppet.exit();
});

scene("a file that the agent gives stands in its answer, where it was given, over a reload", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["Here it is.\n\n"], shown: "Here it is." });
  const { page } = chat;
  const path = join(its.gateway.folder, "chart.png");
  await writeFile(path, PNG);
  puppet.tell({ call: "file", call_id: "f1", path });
  await page.waitForSelector(".told .files canvas:visible");
  puppet.say("Look at the reef.");
  puppet.exit();
  await chat.waitForStatus("completed");
  await page.reload();
  await page.waitForSelector(".told .files canvas:visible");
  const steps = await page.locator(".told > .stretch > :is(.answer, .files)").evaluateAll((all) => all.map((each) => each.className));
  assert.deepEqual(steps, ["answer", "files", "answer"]);
  const download = page.waitForEvent("download");
  await page.click(".told .files button");
  await page.click(".large-picture button:text-is('Save')");
  assert.deepEqual(await readFile(await (await download).path()), PNG);
});
