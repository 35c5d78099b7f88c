// inspector.test.mjs -- the stream inspector: a time line that is scrubbed, replayed, saved and opened.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { eventsOf, textOf } from "./support/journal.mjs";
import { scene } from "./support/scene.mjs";

const replayAgent = fileURLToPath(new URL("fixtures/replay_agent.py", import.meta.url));

/** A page of the inspector, with the stream of a task that has ended. */
async function inspected(its, { count = "12 20" } = {}) {
  const chat = await its.chat();
  await chat.waitForState("live");
  await chat.page.selectOption("#agent", "slow");
  await chat.ask(count);
  await chat.waitForStatus("completed");
  const ids = { task_id: (await chat.taskIds())[0], conversation_id: chat.conversationId() };
  const events = await eventsOf(its.gateway.port, (await chat.guest()).token, ids);
  await chat.page.click(".turn .inspect");
  await chat.waitForText(`event ${events.length} of ${events.length}`, "#place");
  return { chat, page: chat.page, events };
}

async function saved(page) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#save")]);
  const path = await download.path();
  return { name: download.suggestedFilename(), text: await readFile(path, "utf8") };
}

scene("a task's events are shown on a time line, and scrubbed", async (its) => {
  const { chat, page, events } = await inspected(its);
  const rows = await page.locator(".rows tbody td:nth-child(3)").allTextContents();
  assert.deepEqual(rows, events.map(({ event }) => event));
  await page.click(".rows button:text-is('5')");
  await chat.waitForText(`event 5 of ${events.length}`, "#place");
  await chat.waitForText(textOf(events.slice(0, 5)).trim(), ".state .answer");
  assert.match(await chat.textOf(".event-data"), /"seq": 5,/);
  await page.focus("#scrub");
  await page.keyboard.press("Home");
  await chat.waitForText(`event 1 of ${events.length}`, "#place");
  await page.keyboard.press("End");
  await chat.waitForText(textOf(events).trim(), ".state .answer");
});

scene("it is replayed ten times as fast as it was", async (its) => {
  const { chat, page, events } = await inspected(its, { count: "10 200" });
  const lasted = events.at(-1).ts - events[0].ts;
  await page.evaluate(() => {
    const place = document.querySelector("#place");
    window.places = [];
    new MutationObserver(() => window.places.push(place.textContent)).observe(place, {
      subtree: true,
      characterData: true,
    });
  });
  const begun = Date.now();
  await page.click("[data-speed='10']");
  await page.waitForFunction((end) => window.places?.at(-1) === end, `event ${events.length} of ${events.length}`);
  assert.ok(Date.now() - begun >= lasted / 10, "no faster than that");
  const shown = (await page.evaluate(() => window.places)).map((text) => Number(text.split(" ")[1]));
  assert.ok(shown.length > 3, `${shown}`);
  assert.deepEqual(shown, [...shown].sort((a, b) => a - b));
  await chat.waitForText(textOf(events).trim(), ".state .answer");
  await page.waitForSelector("[data-speed='1']");
});

scene("what is saved is the stream, is opened again, and an agent says it again", async (its) => {
  const { chat, page, events } = await inspected(its);
  const file = await saved(page);
  assert.equal(file.name, `${events[0].task_id}.jsonl`);
  assert.deepEqual(file.text.trim().split("\n").map((line) => JSON.parse(line)), events);

  await page.goto(page.url().replace(/#.*/, ""));
  const path = join(its.gateway.folder, "stream.jsonl");
  await writeFile(path, file.text);
  await page.setInputFiles("#file", path);
  await chat.waitForText(`event ${events.length} of ${events.length}`, "#place");
  await chat.waitForText(textOf(events).trim(), ".state .answer");
  assert.equal((await saved(page)).text, file.text);
  await page.setInputFiles("#file", { name: "bad.jsonl", mimeType: "application/jsonl", buffer: Buffer.from("{}\n") });
  await chat.waitForText("bad.jsonl: line 1 is no event", ".trouble");

  await its.gateway.stop();
  its.gateway.config.agents.push({ name: "replay", kind: "exec", command: ["/usr/bin/python3", replayAgent, path] });
  await its.gateway.start();
  const again = await its.chat();
  await again.waitForState("live");
  await again.page.selectOption("#agent", "replay");
  await again.ask("Say it again");
  await again.waitForStatus("completed");
  assert.equal(await again.textOf(".turn .answer"), textOf(events).trim());
  await again.assertIsJournal();
});

scene("somebody else's task is not shown", async (its) => {
  const { page } = await inspected(its);
  const stranger = await its.chat({ hash: "" });
  await stranger.waitForState("live");
  await stranger.page.goto(page.url());
  await stranger.waitForText("no such task", ".trouble");
  assert.equal(await stranger.page.locator(".rows tbody tr").count(), 0);
});

scene("one's own tasks are there to choose", async (its) => {
  const { chat, page, events } = await inspected(its);
  await page.goto(page.url().replace(/#.*/, ""));
  await page.click(".chooser summary");
  await page.click(".chooser li a");
  await chat.waitForText(`event ${events.length} of ${events.length}`, "#place");
});
