// endurance.test.mjs -- the page over long absences, many cuts, long tasks, and the ends of what it leans on.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { eventsOf, tasksOf } from "./support/journal.mjs";
import { scene } from "./support/scene.mjs";

const CUTS = Number(process.env.HOLDFAST_SOAK_CUTS ?? 40);
const KIB = 1024;
const FEW = 100; // events that may still be on their way when the page shows what there is: behind.ts

/** In the page: its connection runs in the tab, where there is a clock to play with. */
const alone = () => delete window.SharedWorker;

/** Waits for a text, or what matches, while the browser says that there is a network again. */
const shows = (chat, selector, text) =>
  chat.page.waitForFunction(
    ([where, what, pattern]) => {
      dispatchEvent(new Event("online"));
      const shown = document.querySelector(where)?.textContent ?? "";
      return pattern ? new RegExp(pattern).test(shown) : shown === what;
    },
    [selector, text, text.source],
    { polling: 200 },
  );

for (const seconds of [1, 30, 120]) {
  scene(`the network is away for ${seconds} s`, async (its) => {
    const prepare = async (page) => {
      await page.addInitScript(alone);
      await page.clock.install();
    };
    const { chat, puppet } = await its.asked({ prepare });
    await its.network.cut();
    await chat.waitForState("waiting");
    await chat.page.waitForFunction(() =>
      /^Reconnecting in \d+ s$/.test(document.querySelector("#connection-text").textContent),
    );
    puppet.say(" deep");
    await chat.page.clock.runFor(seconds * 1_000);
    await chat.ask("And the sky?");
    await chat.waitForText("Waiting to be sent…", ".turn:nth-of-type(2) > .on-its-way .marks");
    await chat.page.waitForFunction(() =>
      document.querySelector("#connection-text").textContent.endsWith("1 message waiting"),
    );
    assert.equal(await chat.textOf(".turn .answer"), "Deep – very");
    await its.network.restore();
    await shows(chat, ".turn .answer", "Deep – very deep");
    puppet.exit();
    const other = await its.stage.puppet();
    assert.equal(other.run.input, "And the sky?");
    other.say("High");
    other.exit();
    await chat.page.waitForSelector(".turn:nth-of-type(2)[data-status=completed]");
    await chat.assertIsJournal();
  });
}

scene("a long replay is counted, and shown at once", async (its) => {
  await its.reconfigure({ compression: false }); // compressed it is too short to be seen
  const { chat, puppet } = await its.asked();
  const { token } = await chat.guest();
  await its.network.cut();
  for (let n = 0; n < 1_650; n++) puppet.emit("thinking", { text: `${n} ` }), puppet.say(` ${n}`);
  const id = chat.conversationId();
  while ((await tasksOf(its.gateway.port, token, id))[0].head < 3_305);
  await chat.page.evaluate(() => {
    window.steps = [];
    const answer = document.querySelector(".turn .answer");
    const told = () => window.steps.push(Number(answer.textContent.trim().split(" ").at(-1)));
    new MutationObserver(told).observe(answer, { subtree: true, childList: true, characterData: true });
  });
  its.network.hold(150 * KIB);
  await its.network.restore();
  await shows(chat, "#connection-text", /^Catching up [1-9](,\d{3}|\d*) of 3,30\d$/);
  assert.equal(await chat.textOf(".turn .answer"), "Deep – very");
  its.network.release();
  await chat.waitForState("live");
  await chat.page.waitForFunction(() => document.querySelector(".answer").textContent.endsWith(" 1649"));
  const steps = await chat.page.evaluate(() => window.steps);
  assert.ok(steps.length <= 3, `${steps}`);
  assert.ok(steps[0] >= 1_649 - FEW / 2, `${steps}`); // half of the events are thoughts
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.assertIsJournal();
});

scene("the page is reloaded in the middle of a replay", async (its) => {
  await its.reconfigure({ compression: false });
  const { chat, puppet } = await its.asked();
  for (let n = 0; n < 1_000; n++) puppet.emit("thinking", { text: `${n} ` }), puppet.say(` ${n}`);
  await chat.page.waitForFunction(() => document.querySelector(".answer").textContent.endsWith(" 999"));
  await its.network.cut();
  its.network.hold(600 * KIB); // the page itself, and a part of the replay
  await its.network.restore();
  await chat.page.reload({ waitUntil: "commit" });
  await chat.page.waitForSelector("#connection");
  its.network.release();
  await chat.page.reload();
  await chat.page.waitForFunction(() => document.querySelector(".answer")?.textContent.endsWith(" 999"));
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.assertIsJournal();
});

scene("the tab that has the connection is closed, and the other goes on", async (its) => {
  const profile = await its.profile();
  const prepare = (page) => page.addInitScript(alone);
  const { chat, puppet } = await its.asked({ profile, prepare });
  const second = await its.chat({ profile, prepare, hash: `#${chat.conversationId()}` });
  await second.waitForText("Deep – very");
  const metrics = await (await fetch(`http://127.0.0.1:${its.gateway.port}/metrics`)).text();
  assert.match(metrics, /^holdfast_connections(\{\})? 1$/m);
  await chat.page.close();
  puppet.say(" deep");
  await second.waitForText("Deep – very deep");
  puppet.exit();
  await second.waitForStatus("completed");
  await second.assertIsJournal();
});

const SECRET = "a secret of more than thirty-two bytes, for the tests";
const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
function tokenOf(sub, seconds) {
  const claims = { sub, exp: Math.floor(Date.now() / 1000) + seconds };
  const signed = `${part({ alg: "HS256", typ: "JWT", kid: "k1" })}.${part(claims)}`;
  return `${signed}.${createHmac("sha256", SECRET).update(signed).digest("base64url")}`;
}

scene("a token runs out, a new one comes, and nothing is lost", async (its) => {
  const origin = `http://127.0.0.1:${its.network.port}`;
  await its.gateway.stop();
  const secret_file = join(its.gateway.folder, "secret");
  await writeFile(secret_file, SECRET, { mode: 0o600 });
  const keys = [{ kid: "k1", alg: "HS256", secret_file }];
  Object.assign(its.gateway.config, { origins: [origin], auth: { keys, cookie: "session" } });
  await its.gateway.start();

  const profile = await its.profile();
  const signIn = (seconds) => profile.addCookies([{ name: "session", value: tokenOf("anna", seconds), url: origin }]);
  await signIn(-16); // clocks may differ by 30 s: 14 are left
  const { chat, puppet } = await its.asked({ profile });
  puppet.say(" deep");
  await chat.waitForState("closed");
  assert.match(await chat.textOf("#connection-text"), /^Signed out/);
  assert.match(await chat.textOf(".turn .answer"), /^Deep – very/);
  puppet.say(" indeed");
  await signIn(3_600);
  await chat.page.click("#reconnect");
  await chat.waitForText("Deep – very deep indeed");
  puppet.exit();
  await chat.waitForStatus("completed");
});

scene("a page of ten thousand events of every kind is drawn in few steps", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["Begin.\n\n"], shown: "Begin." });
  await chat.page.evaluate(() => {
    window.frames = 0;
    const count = { subtree: true, childList: true, characterData: true };
    new MutationObserver(() => window.frames++).observe(document.querySelector("#turns"), count);
  });
  for (let n = 0; n < 1_000; n++) {
    puppet.emit("thinking", { text: `Thought ${n}. ` });
    puppet.emit("tool_call", { call_id: `t${n}`, name: "look", arguments: { n } });
    puppet.emit("tool_result", { call_id: `t${n}`, name: "look", output: `${n}`, is_error: false });
    puppet.emit("progress", { progress: n / 1_000, note: `${n} of 1,000` });
    puppet.say("## Part ", `${n}`, "\n\nSome **words**", " and `code`.\n\n", "- a\n", "- b\n\n");
  }
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.page.waitForFunction(() => document.querySelectorAll(".answer h2").length === 1_000);
  assert.equal(await chat.page.locator(".turn .tool").count(), 20);
  const frames = await chat.page.evaluate(() => window.frames);
  assert.ok(frames < 1_000, `${frames} steps for 10,000 events`);
  const drawn = await chat.page.locator(".piece > p:first-of-type").evaluateAll((all) =>
    all.map((each) => each.checkVisibility({ contentVisibilityAuto: true })),
  );
  assert.deepEqual([drawn.at(0), drawn.at(-1)], [false, true], "what has scrolled away is not");
  await chat.page.click(".earlier");
  await chat.page.waitForFunction(() => document.querySelectorAll(".turn .tool").length === 1_000);
  await chat.assertIsJournal();

  // Another tab gets all of it at once, and goes on answering while it reads.
  const profile = chat.page.context();
  const prepare = (page) => page.addInitScript(countTurns);
  const second = await its.chat({ profile, prepare, hash: `#${chat.conversationId()}` });
  await second.page.waitForFunction(() => window.shownAt);
  const { first, last, steps } = await second.page.evaluate(() => window.shownAt);
  assert.equal(steps, 1, "it is shown at once");
  assert.ok(last - first >= 5, `only ${last - first} turns of the loop in between`);
  await second.assertIsJournal();
});

/** In the page: counts turns of the event loop, from when a turn is there to when its text is. */
function countTurns() {
  let turns = 0;
  let first = null;
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => (turns++, port2.postMessage(""));
  port2.postMessage("");
  let steps = 0;
  new MutationObserver(() => {
    if (document.querySelector(".turn[data-status=completed] .answer:empty")) first ??= turns;
    const parts = document.querySelectorAll(".answer h2").length;
    if (parts > 0) steps++;
    if (parts === 1_000) window.shownAt ??= { first: first ?? turns, last: turns, steps };
  }).observe(document, { subtree: true, childList: true });
}

/** In the page: notes how many parts of an answer are there, each time that it changes. */
function noteParts() {
  window.counts = [];
  new MutationObserver(() => {
    const count = document.querySelectorAll(".answer h2").length;
    if (count !== (window.counts.at(-1) ?? 0)) window.counts.push(count);
  }).observe(document, { subtree: true, childList: true });
}

scene("a replay that stops half-way leaves the answer whole in a second tab", async (its) => {
  await its.reconfigure({ compression: false });
  const { chat, puppet } = await its.asked({ said: ["Begin.\n\n"], shown: "Begin." });
  for (let n = 0; n < 1_000; n++) {
    puppet.emit("tool_call", { call_id: `t${n}`, name: "look", arguments: { n } });
    puppet.emit("tool_result", { call_id: `t${n}`, name: "look", output: `${n} `.repeat(100), is_error: false });
    puppet.say(`## Part ${n}\n\nSome **words** and \`code\`.\n\n`);
  }
  puppet.exit();
  await chat.waitForStatus("completed");
  const second = await its.chat({ profile: chat.page.context(), prepare: (page) => page.addInitScript(noteParts) });
  await second.waitForState("live");
  its.network.hold(300 * KIB);
  await second.page.evaluate((hash) => (location.hash = hash), `#${chat.conversationId()}`);
  await shows(second, "#connection-text", /^Catching up [1-9]/);
  await second.page.waitForFunction(() => document.querySelectorAll(".answer h2").length === 1_000);
  its.network.release();
  await second.page.waitForFunction(() => document.querySelectorAll(".turn .tool").length === 20);
  assert.deepEqual(await second.page.evaluate(() => window.counts), [1_000]);
  await second.assertIsJournal();
});

scene("much text is shown although words keep coming", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["Begin."], shown: "Begin." });
  const parts = Array.from({ length: 1_500 }, (_, n) => `\n\n## Part ${n}\n\nSome **words** and \`code\`.`);
  for (let at = 0; at < parts.length; at += 100) puppet.say(parts.slice(at, at + 100).join(""));
  let said = 0;
  const talk = setInterval(() => puppet.say(` w${said++}`), 4); // no gap is long enough to read it all
  try {
    await chat.page.waitForFunction((n) => document.querySelectorAll(".answer h2").length === n, parts.length);
  } finally {
    clearInterval(talk);
  }
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.page.waitForFunction((end) => document.querySelector(".answer").textContent.endsWith(end), ` w${said - 1}`);
  await chat.assertIsJournal();
});

async function heapOf(client) {
  await client.send("HeapProfiler.collectGarbage");
  return (await client.send("Runtime.getHeapUsage")).usedSize / KIB;
}

scene(`${CUTS} random cuts over one long task: all text, and a flat heap`, { timeout: 240_000 }, async (its) => {
  const { chat, puppet } = await its.asked();
  const client = await chat.page.context().newCDPSession(chat.page);
  const { token } = await chat.guest();
  const text = () => chat.textOf(".turn .answer");
  let said = await text();
  const heaps = [];
  for (let cut = 1; cut <= CUTS; cut++) {
    const words = Array.from({ length: 1 + (cut % 5) }, (_, at) => ` ${cut}.${at}`);
    puppet.say(...words);
    said += words.join("");
    await its.network.cut();
    await its.network.restore();
    if (Math.random() < 0.5) {
      await shows(chat, ".turn .answer", said);
    } else {
      await chat.page.evaluate(() => dispatchEvent(new Event("online"))); // cut while it comes back
    }
    if (cut % (CUTS / 4) === 0) heaps.push(await heapOf(client));
  }
  await shows(chat, ".turn .answer", said);
  const ids = { task_id: (await chat.taskIds())[0], conversation_id: chat.conversationId() };
  const events = await eventsOf(its.gateway.port, token, ids);
  assert.equal(events.length, 2 + said.split(" ").length);
  const growth = heaps.at(-1) - heaps[0];
  console.log(`heap after each quarter, KiB: ${heaps.map(Math.round).join(" ")}`);
  assert.ok(growth < 3 * KIB, `the heap grew by ${Math.round(growth)} KiB: ${heaps.map(Math.round)}`);
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.assertIsJournal();
});
