// frames.mjs -- measures how smoothly the page shows ten thousand events of one task: at once, at a
// thousand a second, and as a replay.  It prints figures, and judges none: endurance.test.mjs holds
// what does not depend on the machine.  The cost of a task and of a frame is that of the processor,
// so that it matters less what else the machine does; beside it stands how long frames took by the
// clock.    node --test tests/browser/frames.mjs

import { setTimeout } from "node:timers/promises";
import { browser } from "./support/browser.mjs";
import { scene } from "./support/scene.mjs";

const ROUNDS = 1_000; // of ten events each
const LONG_MS = 50;

function say(puppet, n) {
  puppet.emit("thinking", { text: `Thought ${n}. ` });
  puppet.emit("tool_call", { call_id: `t${n}`, name: "look", arguments: { n } });
  puppet.emit("tool_result", { call_id: `t${n}`, name: "look", output: `${n}`, is_error: false });
  puppet.emit("progress", { progress: n / ROUNDS, note: `${n} of 1,000` });
  puppet.say("## Part ", `${n}`, "\n\nSome **words** and `code`.\n\n", "- a\n- b\n\n", "| a | b |\n| - | - |\n", "| 1 | 2 |\n\n");
}

/** Notes, in the page, how long each frame took until the next. */
function noteFrames() {
  window.frames_ms = [];
  let before = performance.now();
  const note = (now) => {
    window.frames_ms.push(now - before);
    before = now;
    requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
}

function reportFrames(name, some) {
  const all = some.toSorted((a, b) => a - b);
  const at = (part) => all[Math.min(all.length - 1, Math.floor(all.length * part))].toFixed(1);
  console.log(`${name}: ${all.length} frames; ${at(0.5)} ms at the median, ${at(0.99)} at p99, ${at(1)} at most`);
}

/** The work of the page's main thread while `body` ran: each task, and each frame, in ms of the processor. */
async function workDuring(page, body) {
  const its = await browser();
  await its.startTracing(page, { categories: ["toplevel", "cc", "disabled-by-default-devtools.timeline", "__metadata"] });
  await body();
  const { traceEvents } = JSON.parse(await its.stopTracing());
  const threads = traceEvents.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain");
  const costsOn = ({ pid, tid }, wanted) =>
    traceEvents
      // "X": a flow between threads has the same name.
      .filter((event) => event.name === wanted && event.ph === "X" && event.pid === pid && event.tid === tid)
      .toSorted((a, b) => a.ts - b.ts)
      .map(({ tdur = 0 }) => tdur / 1_000);
  const workOn = (thread) => costsOn(thread, "RunTask").reduce((a, b) => a + b, 0);
  const busiest = threads.toSorted((a, b) => workOn(b) - workOn(a))[0]; // the page: others are blank
  return { tasks: costsOn(busiest, "RunTask"), frames: costsOn(busiest, "ProxyMain::BeginMainFrame") };
}

function report(name, { tasks, frames }) {
  const longs = tasks.filter((ms) => ms >= LONG_MS);
  const sum = (some) => some.reduce((a, b) => a + b, 0).toFixed(0);
  console.log(
    `${name}: ${tasks.length} tasks, ${sum(tasks)} ms; longest ${Math.max(...tasks).toFixed(0)} ms; ` +
      `${longs.length} of ${LONG_MS} ms or more, ${sum(longs)} ms together`,
  );
  reportFrames(`${name}, of the processor`, frames);
  const fifth = Math.ceil(frames.length / 5);
  reportFrames(`${name}, of the processor, the first fifth`, frames.slice(0, fifth));
  reportFrames(`${name}, of the processor, the last fifth`, frames.slice(-fifth));
}

for (const [name, pause_ms] of [["at once", 0], ["at 1,000 a second", 10]]) {
  scene(`ten thousand events, ${name}`, async (its) => {
    const { chat, puppet } = await its.asked({ said: ["Begin.\n\n"], shown: "Begin." });
    const all = () => chat.page.waitForFunction((n) => document.querySelectorAll(".answer h2").length === n, ROUNDS);
    await chat.page.evaluate(noteFrames);
    const live = await workDuring(chat.page, async () => {
      const begun = Date.now();
      for (let n = 0; n < ROUNDS; n++) {
        say(puppet, n);
        const early = begun + n * pause_ms - Date.now();
        if (early > 0) await setTimeout(early);
      }
      puppet.exit();
      await chat.waitForStatus("completed");
      await all();
    });
    report(`live, ${name}`, live);
    reportFrames(`live, ${name}, by the clock`, await chat.page.evaluate(() => window.frames_ms));
    if (pause_ms > 0) return;
    const replay = await workDuring(chat.page, async () => {
      await chat.page.reload();
      await all();
    });
    report("as a replay", replay);
  });
}
