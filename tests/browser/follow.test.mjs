// follow.test.mjs -- what a growing answer costs the browser, and the view that follows its end.

import assert from "node:assert/strict";
import { scene } from "./support/scene.mjs";

/** One step of a long task: ten events. */
function work(puppet, n) {
  puppet.emit("thinking", { text: `Thought ${n}. ` });
  puppet.emit("tool_call", { call_id: `t${n}`, name: "look", arguments: { n } });
  puppet.emit("tool_result", { call_id: `t${n}`, name: "look", output: `${n}`, is_error: false });
  puppet.emit("progress", { progress: n / 1_000, note: `${n} of 1,000` });
  puppet.say("## Part ", `${n}`, "\n\nSome **words** and `code`.\n\n", "- a\n", "- b\n", "\nMore words.\n\n");
}

const shows = (chat, parts) => chat.page.waitForFunction((n) => document.querySelectorAll(".answer h2").length === n, parts);

/** In the page, before its own scripts: marks what runs within a frame. */
function markFrames() {
  const request = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (callback) =>
    request((now) => {
      window.isInFrame = true;
      try {
        callback(now);
      } finally {
        queueMicrotask(() => (window.isInFrame = false)); // behind those who were told of changes
      }
    });
}

/** In the page: counts changes of the turns, within frames and between them. */
function countChanges() {
  window.changes = { within: 0, between: 0 };
  new MutationObserver(() => window.changes[window.isInFrame ? "within" : "between"]++).observe(
    document.querySelector("#turns"),
    { subtree: true, childList: true, characterData: true, attributes: true },
  );
}

scene("a growing answer changes the page within frames alone, and its end stays in view", async (its) => {
  const prepare = (page) => page.addInitScript(markFrames);
  const { chat, puppet } = await its.asked({ said: ["Begin.\n\n"], shown: "Begin.", prepare });
  const { page } = chat;
  await page.evaluate(countChanges);
  for (let n = 0; n < 90; n++) {
    work(puppet, n);
    if (n % 3 === 2) await shows(chat, n + 1); // in steps that are higher than what counts as the end
  }
  const { within, between } = await page.evaluate(() => window.changes);
  assert.ok(within >= 30, `${within} changes`);
  assert.equal(between, 0, "the browser would style and lay out twice in a frame");

  const isAtEnd = () => page.waitForFunction(() => {
    const { scrollHeight, scrollTop, clientHeight } = document.querySelector("#thread");
    return scrollHeight - scrollTop - clientHeight <= 2;
  });
  await isAtEnd();
  assert.equal(await page.locator(".to-end").count(), 0);

  await page.evaluate(() => {
    window.scrolled = new Promise((resolve) => document.querySelector("#thread").addEventListener("scrollend", resolve, { once: true }));
  });
  await page.locator("#thread").hover();
  await page.mouse.wheel(0, -600);
  await page.evaluate(() => window.scrolled);
  await page.waitForSelector(".to-end");
  const place = () => page.locator("h2", { hasText: "Part 85" }).evaluate((heading) => heading.getBoundingClientRect().top);
  const before = await place();
  for (let n = 90; n < 100; n++) work(puppet, n);
  await shows(chat, 100);
  assert.ok(Math.abs((await place()) - before) <= 2, "who reads above stays there");
  await page.click(".to-end");
  await isAtEnd();
  await page.waitForSelector(".to-end", { state: "detached" });
  work(puppet, 100);
  await shows(chat, 101);
  await isAtEnd();
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.assertIsJournal();
});

/** In the page, before its own scripts: while it is hidden there are no frames. */
function hideable() {
  const request = window.requestAnimationFrame.bind(window);
  const held = (window.held = []);
  window.requestAnimationFrame = (callback) => (window.isHidden ? -held.push(callback) : request(callback));
  window.show = () => {
    window.isHidden = false;
    for (const callback of held.splice(0)) request(callback);
  };
}

scene("what comes while the tab is hidden waits in one frame, and stands there when it is seen again", async (its) => {
  const profile = await its.profile();
  const { chat, puppet } = await its.asked({ said: ["Begin.\n\n"], shown: "Begin.", profile, prepare: (page) => page.addInitScript(hideable) });
  const { page } = chat;
  const beside = await its.chat({ profile, hash: `#${chat.conversationId()}` });
  await page.evaluate(() => (window.isHidden = true));
  for (let n = 0; n < 300; n++) work(puppet, n);
  await shows(beside, 300);
  const { parts, waiting } = await page.evaluate(() => ({ parts: document.querySelectorAll(".answer h2").length, waiting: window.held.length }));
  assert.equal(parts, 0);
  assert.ok(waiting <= 3, `${waiting} frames wait`); // the page's, and those of what follows the end
  await page.evaluate(() => window.show());
  await shows(chat, 300);
  await page.waitForFunction(() => {
    const { scrollHeight, scrollTop, clientHeight } = document.querySelector("#thread");
    return scrollHeight - scrollTop - clientHeight <= 2;
  });
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.assertIsJournal();
});

/** In the page: adds the newest step once more, and takes it away again; the browser styles the page each time. */
function addSteps() {
  const stretch = [...document.querySelectorAll(".stretch")].at(-1);
  const step = [...stretch.children].slice(-3); // thoughts, calls, words
  for (let n = 0; n < 20; n++) {
    const copies = step.map((each) => each.cloneNode(true));
    stretch.append(...copies);
    void document.querySelector("#thread").scrollHeight;
    for (const copy of copies) copy.remove();
  }
}

/** In the page: takes all stretches that have scrolled away, or brings them back. */
function takeFar() {
  window.far = [...document.querySelectorAll(".stretch[data-far]")].map((each) => [each, each.parentNode, each.nextSibling]);
  for (const [each] of window.far) each.remove();
  void document.querySelector("#thread").scrollHeight;
}

function bringFar() {
  for (const [each, parent, next] of window.far.toReversed()) parent.insertBefore(each, next);
  void document.querySelector("#thread").scrollHeight;
}

scene("a step costs the browser as much below a thousand others as below none", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["Begin.\n\n"], shown: "Begin." });
  const { page } = chat;
  for (let n = 0; n < 1_000; n++) work(puppet, n);
  await shows(chat, 1_000);
  const client = await page.context().newCDPSession(page);
  await client.send("Performance.setTimeDomain", { timeDomain: "threadTicks" }); // of the processor, not the clock
  await client.send("Performance.enable");
  const spent = async () => {
    const { metrics } = await client.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "RecalcStyleDuration").value * 1_000;
  };
  const cost = async () => {
    const begun = await spent();
    await page.evaluate(addSteps);
    return (await spent()) - begun;
  };
  const [alone, below] = [[], []];
  const ratio = () => Math.min(...below) / Math.min(...alone); // the other tries were disturbed
  for (let n = 0; n < 12 || (n < 60 && ratio() >= 2.5); n++) {
    below.push(await cost());
    await page.evaluate(takeFar);
    alone.push(await cost());
    await page.evaluate(bringFar);
  }
  const [least, most] = [Math.min(...alone), Math.min(...below)];
  console.log(`styles of 20 steps: ${least.toFixed(2)} ms, below a thousand others ${most.toFixed(2)} ms`);
  assert.ok(ratio() < 2.5, `a step takes ${ratio().toFixed(1)} times as long`);
  puppet.exit();
  await chat.waitForStatus("completed");
});
