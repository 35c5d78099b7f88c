// engines.test.mjs -- the page in Firefox and in WebKit, on a desk and on a phone: what it is for works there.

import assert from "node:assert/strict";
import { Firefox, WebKit } from "./support/engines.mjs";
import { eventsOf, tasksOf, textOf } from "./support/journal.mjs";
import { scene } from "./support/scene.mjs";

const sizes = { desk: [1280, 800], phone: [390, 760] };

/** In the page: the guest's token. */
function readToken() {
  return new Promise((resolve) => {
    const opening = indexedDB.open("holdfast");
    opening.onsuccess = () => {
      const all = opening.result.transaction("kept").objectStore("kept").getAll();
      all.onsuccess = () => resolve(all.result.find((each) => typeof each === "string") ?? "");
    };
  });
}

const inState = (tab, state) => tab.until((wanted) => document.querySelector("#connection")?.dataset.state === wanted, state);
const lastTurn = (tab, status) =>
  tab.until((wanted) => [...document.querySelectorAll(".turn")].at(-1)?.dataset.status === wanted, status);

async function journey(its, tab, newTab) {
  const home = `http://127.0.0.1:${its.network.port}/`;
  await tab.open(home);
  await inState(tab, "live");
  await tab.ask("How deep is the sea?");
  const first = await its.stage.puppet();
  assert.equal(first.run.input, "How deep is the sea?");
  first.say("Deep", " – ", "very");
  await tab.shows("Deep – very");

  await tab.reload(); // in mid-answer
  await tab.shows("Deep – very");
  first.say(" deep");
  await tab.shows("Deep – very deep");

  const second = await newTab();
  await second.open(await tab.run(() => location.href));
  await second.shows("Deep – very deep");
  await its.network.cut();
  first.say(" indeed");
  await tab.until(() => document.querySelector("#connection")?.dataset.state !== "live");
  await tab.ask("And how wide?"); // waits for the network
  await tab.until(() => document.querySelectorAll(".turn").length === 2);
  await its.network.restore();
  for (const each of [tab, second]) await each.run(() => void dispatchEvent(new Event("online")));
  first.exit();
  const next = await its.stage.puppet();
  assert.equal(next.run.input, "And how wide?");
  next.say("Wide");
  for (const each of [tab, second]) {
    await each.shows("Wide");
    await each.shows("Deep – very deep indeed", ".turn:first-of-type .answer");
  }

  await second.show();
  await second.click("#stop");
  for (const each of [tab, second]) await lastTurn(each, "cancelled");
  await tab.show();

  await tab.ask("| a | b |"); // one more, with all kinds of text
  const third = await its.stage.puppet();
  third.say("# Title\n\n- one\n- **two**\n\n```c\nint x;\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n$a^2$\n");
  third.exit();
  await lastTurn(tab, "completed");
  await tab.see(".turn:last-of-type .code");
  await tab.see(".turn:last-of-type table");
  await tab.see(".turn:last-of-type .katex");

  const token = await tab.run(readToken);
  const conversation_id = (await tab.run(() => location.hash)).slice(1);
  const tasks = await tasksOf(its.gateway.port, token, conversation_id);
  assert.equal(tasks.length, 3, "each was asked once");
  const said = textOf(await eventsOf(its.gateway.port, token, { task_id: tasks[0].task_id, conversation_id }));
  assert.equal(said, "Deep – very deep indeed");
  for (const each of [tab, second]) {
    const fits = () => document.documentElement.scrollWidth <= innerWidth;
    assert.equal(await each.run(fits), true, "it fits");
    assert.deepEqual(await each.run(() => window.faults ?? []), []);
  }
}

for (const [name, Engine] of Object.entries({ Firefox, WebKit })) {
  const skip = Engine.isHere() ? false : `${name} is not installed: ./dev test-all does that`;
  for (const [size, [width, height]] of Object.entries(sizes)) {
    scene(`${name}, ${size}: asked, reloaded, cut, stopped, in two tabs`, { skip }, async (its) => {
      const engine = new Engine();
      try {
        await engine.open();
        const make = async () => {
          const tab = await engine.tab();
          await tab.resize(width, height);
          return tab;
        };
        await journey(its, await make(), make);
      } finally {
        await engine.close();
      }
    });
  }
}
