// inspector.test.mjs -- the stream inspector: a time line that is scrubbed, replayed, saved and opened.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { eventsOf, textOf } from "./support/journal.mjs";
import { scene } from "./support/scene.mjs";
import { states } from "./support/states.mjs";
import { authWith, OTHER_SECRET } from "./support/tokens.mjs";

const replayAgent = fileURLToPath(new URL("fixtures/replay_agent.py", import.meta.url));

/** A page of the inspector, with the stream of a task that has ended. */
async function inspected(its) {
  const chat = await its.chat();
  await chat.waitForState("live");
  await chat.page.selectOption("#agent", "slow");
  await chat.ask("12 20");
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
  const rows = await page.locator(".rows tbody td:nth-child(4)").allTextContents();
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

scene("events are filtered by their kind, and searched", async (its) => {
  const { chat, page, events } = await inspected(its);
  const numbers = () => page.locator(".rows tbody td:nth-child(1)").allTextContents();
  const of = (some) => some.map(({ seq }) => String(seq));
  await page.selectOption(".filter select", "life");
  assert.deepEqual(await numbers(), of(events.filter(({ event }) => event.startsWith("task."))));
  await page.selectOption(".filter select", "all");
  await page.fill(".filter input", "\"12 ");
  const saying = events.filter(({ event, data }) => `${event} ${JSON.stringify(data)}`.includes('"12 '));
  assert.ok(saying.length > 0 && saying.length < events.length);
  assert.deepEqual(await numbers(), of(saying));
  await chat.waitForText(`${saying.length} of ${events.length} events`, ".filter .hint");
});

scene("the connection is seen: its states, frames both ways, cursors, latency", async (its) => {
  const { chat, puppet } = await its.asked();
  const { page } = chat;
  await page.click(".turn .inspect");
  await chat.waitForText("event 5 of 5", "#place");
  await page.click("#bar nav a:text-is('Connection')");
  await chat.waitForText("live", "[data-fact=State] dd");
  await page.waitForSelector("[data-fact=Latency] dd:has-text('median')"); // of the ping that opening it sends
  const rows = (way) => page.locator(`.frames tr[data-way=${way}] td:nth-child(4)`).allTextContents();
  assert.ok((await rows("out")).includes("resume") && (await rows("out")).includes("ping"));
  assert.ok((await rows("in")).includes("pong"));
  assert.deepEqual((await rows("state")).slice(-2), ["live", "connecting"]);
  await chat.waitForText("5", "[data-cursor] strong");
  puppet.say(" deep");
  await chat.waitForText("6", "[data-cursor] strong"); // the stream goes on while the connection is looked at
  await its.network.cut();
  await page.waitForSelector(".frames tr[data-way=state] td:text-is('waiting')");
  assert.match(await chat.textOf("[data-fact=Trouble] dd"), /1006/);
  const told = await page.locator(".frames tr[data-way=state] .gist").allTextContents();
  assert.ok(told.some((text) => /^waiting, again in \d+ ms: /.test(text)), told.join("\n"));
  await its.network.restore();
  await page.waitForFunction(() => document.querySelector("[data-fact=State] dd").textContent === "live");
  await page.selectOption(".frames select", "out");
  await page.fill(".frames input", '"ping"');
  await page.click(".frames .rows button");
  assert.match(await chat.textOf(".frames .event-data"), /"type": "ping"/);
  assert.ok(!(await page.content()).includes((await chat.guest()).token)); // a picture of it gives nobody away
  await page.click("#bar nav a:text-is('Streams')");
  await chat.waitForText("event 6 of 6", "#place");
  puppet.exit();
});

scene("faults are switches of the connection's page", async (its) => {
  const chat = await its.chat({ file: "inspector.html", hash: "#connection" });
  const { page } = chat;
  await chat.waitForText("live", "[data-fact=State] dd");
  await page.fill("[name=refuse]", "2");
  await page.fill("[name=closeCode]", "4429");
  await page.click(".faults button:text-is('Apply')");
  await page.waitForFunction(() => [...document.querySelectorAll(".frames .gist")].filter((row) => row.textContent.includes("4429")).length >= 2);
  await chat.waitForText("live", "[data-fact=State] dd");
  assert.equal(new URL(page.url()).searchParams.get("fault"), "refuse:2,closeCode:4429");
  assert.equal(await page.inputValue("[name=refuse]"), "2");
  await page.click(".faults button:text-is('None')");
  await page.waitForURL((url) => !url.searchParams.has("fault"));
  await chat.waitForText("live", "[data-fact=State] dd");
});

scene("pieces of text become one row; gaps and sizes are shown", async (its) => {
  const chat = await its.chat({ file: "inspector.html" });
  const { page } = chat;
  await page.setInputFiles("#file", fileOf([0, 5, 2_005]));
  await chat.waitForText("event 3 of 3", "#place");
  const column = (n) => page.locator(`.rows tbody td:nth-child(${n})`).allTextContents();
  assert.deepEqual(await column(3), ["", "+5 ms", "+2.0 s"]);
  assert.deepEqual(await page.locator(".gap[data-long]").allTextContents(), ["+2.0 s"]);
  const bytes = [0, 5, 2_005].map((ms, at) => JSON.stringify({ type: "event", ...lineOf(ms, at) }).length + 1);
  assert.deepEqual(await column(5), bytes.map((each) => `${each} B`));
  await page.click(".filter .join");
  assert.deepEqual(await column(1), ["1–3"]);
  assert.deepEqual(await column(6), ["0 5 2005 "]);
  await page.click(".rows button");
  await chat.waitForText("event 3 of 3", "#place");
  assert.match(await chat.textOf(".event-data"), /"text": "0 5 2005 "/);
});

scene("a stream is looked at while it runs", async (its) => {
  const { chat, puppet } = await its.asked();
  await chat.page.click(".turn .inspect");
  await chat.waitForText("event 5 of 5", "#place");
  puppet.say(" deep");
  await chat.waitForText("event 6 of 6", "#place");
  puppet.exit();
});

scene("a stream that is looked at stays when the token ends, and goes on after the next sign-in", async (its) => {
  const chat = await states.signedOut(its);
  const { page } = chat;
  const [task_id] = await chat.taskIds();
  const conversation = chat.conversationId();
  await its.reconfigure({ auth: await authWith(its.gateway.folder) });
  await page.goto(`http://127.0.0.1:${its.network.port}/inspector.html#${conversation}/${task_id}`);
  await page.waitForSelector("#place");
  await page.waitForSelector(".told[data-status=completed]", { state: "attached" });
  const place = await chat.textOf("#place");
  await its.reconfigure({ auth: await authWith(its.gateway.folder, OTHER_SECRET) });
  await page.evaluate(() => dispatchEvent(new Event("online")));
  await chat.waitForState("closed");
  await chat.waitForText("You are signed out. The stream is shown as far as it had come: save it to keep it. Sign in", "#why-not");
  assert.equal(await chat.textOf("#place"), place);
  assert.ok((await saved(page)).text.includes('"task.completed"'));
  await page.click("#why-not button");
  await chat.waitForText("This token is not good", "#sign-in h2");
  await its.reconfigure({ auth: await authWith(its.gateway.folder) });
  await page.click("#sign-in button:text-is('I have signed in: try again')");
  await chat.waitForState("live");
  await chat.waitForText(place, "#place"); // each event once
});

const task_id = "01HZ0000000000000000000000";
const lineOf = (ms, at) => ({ task_id, seq: at + 1, ts: 1_000 + ms, event: "token", data: { text: `${ms} ` } });

/** A stream whose events came at these moments, in ms, as a file. */
function fileOf(moments) {
  const lines = moments.map((ms, at) => `${JSON.stringify(lineOf(ms, at))}\n`);
  return { name: "stream.jsonl", mimeType: "application/jsonl", buffer: Buffer.from(lines.join("")) };
}

const FRAME_MS = 17;
const MOMENTS = [0, 1_000, 2_000, 2_000, 4_000, 7_000];
const PLACES = [[500, 1], [1_400, 2], [2_400, 4], [3_900, 4], [4_400, 5], [6_900, 5]]; // when, and the event then

for (const speed of [1, 10]) {
  scene(`it is replayed event by event, ${speed} times as fast as it was`, async (its) => {
    const chat = await its.chat({ file: "inspector.html", prepare: (page) => page.clock.install() });
    const { page } = chat;
    await page.setInputFiles("#file", fileOf(MOMENTS));
    await chat.waitForText("event 6 of 6", "#place");
    await page.clock.pauseAt(Date.now() + 3_600_000);
    await page.click(`[data-speed='${speed}']`);
    let at = 0;
    const runTo = (ms) => page.clock.runFor((ms - at) / speed).then(() => (at = ms));
    for (const [ms, seq] of PLACES) {
      await runTo(ms);
      await page.waitForFunction(
        (least) => Number(document.querySelector("#scrub").value) >= least,
        ms - 2 * FRAME_MS * speed,
        { polling: 20 },
      );
      assert.equal(await chat.textOf("#place"), `event ${seq} of 6`, `after ${ms} ms`);
      assert.equal(await chat.textOf(".state .answer"), MOMENTS.slice(0, seq).join(" "));
    }
    await runTo(7_400);
    await chat.waitForText("event 6 of 6", "#place");
    await page.waitForSelector("[data-speed='1']"); // it has stopped
  });
}

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
