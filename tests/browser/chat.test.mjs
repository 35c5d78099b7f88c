// chat.test.mjs -- what the chat page does, in Chromium, against the built gateway.
//
// In each case the page must say what the gateway's journal says, to the letter: `assertIsJournal`
// reads that with a client of its own.  The agents are puppets: tests wait for events, not for time.

import assert from "node:assert/strict";
import { answerTo } from "./support/journal.mjs";
import { detail, scene } from "./support/scene.mjs";

scene("a question is asked and answered", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  await chat.ask("What is\n6 × 7?");
  const puppet = await its.stage.puppet();
  assert.equal(puppet.run.input, "What is\n6 × 7?");
  puppet.emit("thinking", { text: "Multiply" });
  puppet.emit("thinking", { text: " them." });
  puppet.emit("tool_call", { call_id: "t1", name: "calculator", arguments: { expression: "6*7" } });
  puppet.emit("tool_result", { call_id: "t1", name: "calculator", output: "42", is_error: false });
  puppet.emit("progress", { progress: 0.5, note: "half way" });
  await chat.waitForText("half way", ".turn .note");
  puppet.say("It ", "is ", "42.\n", "Träum’ süß 🪸");
  puppet.exit();
  await chat.waitForStatus("completed");

  assert.equal(await chat.textOf(".turn .asked"), "What is\n6 × 7?");
  assert.equal(await chat.textOf(".turn .thoughts"), "Multiply them.");
  assert.equal(await chat.textOf(".turn .tool code"), "calculator");
  assert.equal(await chat.textOf(".turn .tool .state"), "done");
  assert.match(await chat.textOf(".turn .tool .took"), /^\d+ ms$|^\d\.\d s$/);
  assert.equal(await chat.textOf(".turn .tool .output"), "42");
  assert.deepEqual(await chat.allTexts(".turn progress, #stop, .turn .marks"), []);
  assert.equal(await chat.textOf(".turn .answer"), "It is 42.\nTräum’ süß 🪸");
  await chat.assertIsJournal();

  await chat.page.reload();
  await chat.waitForText("It is 42.\nTräum’ süß 🪸");
  assert.equal((await chat.allTexts(".turn .asked")).length, 1);
  await chat.assertIsJournal();
});

detail("a final answer takes the place of what was streamed", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["a first ", "draft"] });
  puppet.emit("final_answer", { output: "The answer." });
  puppet.exit();
  await chat.waitForStatus("completed");
  assert.equal(await chat.textOf(".turn .answer"), "The answer.");
  await chat.assertIsJournal();
});

detail("a failed task says why and keeps what it had said", async (its) => {
  const { chat, puppet } = await its.asked();
  puppet.exit(3);
  await chat.waitForStatus("failed");
  assert.equal(
    await chat.textOf(".turn .told .ending .sentence"),
    "The assistant broke off. What had been said is kept.",
  );
  assert.equal(await chat.textOf(".turn .told .ending pre"), "exit status 3");
  await chat.assertIsJournal();
});

scene("cancel stops it and keeps what was said", async (its) => {
  const { chat } = await its.asked();
  await chat.page.click("#stop");
  await chat.waitForStatus("cancelled");
  assert.equal(await chat.textOf(".turn .answer"), "Deep – very");
  assert.equal(await chat.textOf(".turn .told .marks"), "Stopped: this is what had been said");
  assert.deepEqual(await chat.allTexts("#stop"), []);
  await chat.assertIsJournal();

  await chat.page.reload();
  await chat.waitForText("Stopped: this is what had been said", ".turn .told .marks");
  assert.equal(await chat.textOf(".turn .answer"), "Deep – very");
  await chat.assertIsJournal();
});

scene("another browser profile sees nothing of it", async (its) => {
  const { chat, puppet } = await its.asked();
  const stranger = await its.chat({ hash: `#${chat.conversationId()}` });
  await stranger.waitForState("live");
  await stranger.ask("Is somebody here?"); // whose answer comes after all that the page could be told
  const other = await its.stage.puppet();
  other.say("Only you.");
  puppet.say(" deep");
  await chat.waitForText("Deep – very deep");
  await stranger.waitForText("Only you.");
  assert.deepEqual(await stranger.allTexts(".turn .asked"), ["Is somebody here?"]);
  assert.deepEqual(await stranger.allTexts("#conversations .title"), [
    "Is somebody here?",
  ]);
  assert.deepEqual(await chat.allTexts("#conversations .title"), [
    "How deep is the sea?",
  ]);

  const mine = await chat.guest();
  const theirs = await stranger.guest();
  assert.notEqual(mine.owner, theirs.owner);
  const ids = { task_id: (await chat.taskIds())[0], conversation_id: chat.conversationId() };
  for (const type of ["resume", "cancel", "task"]) {
    const reply = await answerTo(its.gateway.port, theirs.token, { type, ...ids });
    assert.equal(reply.code, "not_found");
  }
  puppet.exit();
  other.exit();
  await chat.waitForStatus("completed");
  await stranger.waitForStatus("completed");
  await chat.assertIsJournal();
});

scene("hostile text shows as text", async (its) => {
  const hostile =
    `<script>window.hacked = 1</script><img src="x" onerror="window.hacked = 2">` +
    `</div><a href="javascript:window.hacked = 3">x</a>&lt;&amp;`;
  const { chat, puppet } = await its.asked({ text: hostile, said: [hostile] });
  puppet.emit("thinking", { text: hostile });
  puppet.emit("tool_call", { call_id: hostile, name: hostile, arguments: { [hostile]: hostile } });
  puppet.emit("tool_result", { call_id: hostile, name: hostile, output: hostile, is_error: true });
  puppet.emit("progress", { progress: 0.1, note: hostile });
  puppet.emit("input_required", { input_id: "q", kind: "question", prompt: hostile });
  await chat.waitForText(hostile, ".turn .prompt");
  for (const place of [
    ".asked",
    ".answer",
    ".thoughts",
    ".tool code",
    ".note",
    ".tool .output",
  ]) {
    assert.equal(await chat.textOf(`.turn ${place}`), hostile);
  }
  assert.equal(await chat.textOf("#conversations span"), [...hostile].slice(0, 80).join(""));
  assert.equal(await chat.page.locator("#turns :is(script, img, a:not(.inspect), iframe, style)").count(), 0);
  assert.equal(await chat.page.evaluate(() => window.hacked), undefined);
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.assertIsJournal();
});

scene("a question to the user survives a reload and is answered", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["Well"] });
  puppet.emit("input_required", { input_id: "q1", kind: "question", prompt: "Which sea?" });
  await chat.waitForText("Which sea?", ".turn .question .prompt");
  await chat.page.reload();
  await chat.waitForText("Which sea?", ".turn .question .prompt");
  await chat.page.fill(".turn .question input", "the red one");
  await chat.page.press(".turn .question input", "Enter");
  const { type, input_id, answer } = await puppet.heard.take();
  assert.deepEqual(
    { type, input_id, answer },
    { type: "input", input_id: "q1", answer: "the red one" },
  );
  await chat.waitForText("Answered: the red one", ".turn .question .outcome");

  puppet.emit("input_required", {
    input_id: "q2",
    kind: "approval",
    prompt: "Dive?",
    tool: "dive",
    arguments: { metres: 3 },
  });
  await chat.page.click(".turn .question.open button:text-is('Approve')");
  assert.equal((await puppet.heard.take()).answer, true);
  await chat.page.waitForSelector(".turn .question .outcome:text-is('Approved')");
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.assertIsJournal();
});

detail("a child task is listed, with its progress and its answer", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["I ask a friend."] });
  puppet.tell({
    call: "spawn",
    call_id: "c1",
    agent: "puppet",
    input: "help",
    name: "friend",
    description: "A friend",
  });
  const child = await its.stage.puppet();
  assert.equal(child.run.input, "help");
  child.emit("progress", { progress: 0.25 });
  await chat.waitForText("A friend", ".turn .tree .name");
  await chat.page.waitForFunction(() => document.querySelector(".tree progress")?.value === 0.25);
  child.tell({ call: "spawn", call_id: "c1", agent: "puppet", input: "more help", name: "helper" });
  const grandchild = await its.stage.puppet();
  grandchild.say("Deeper");
  grandchild.exit();
  await chat.waitForText("helper", ".turn .tree .tree .name");
  child.say("Here", " it is");
  child.exit();
  await chat.page.waitForSelector(".tree > li > .task[data-status=completed]");
  await chat.waitForText("Here it is", ".tree .answer"); // the status may be told before the last words
  puppet.exit();
  await chat.page.waitForSelector(".turn[data-status=completed]");

  await chat.page.reload();
  await chat.page.click(".tree > li > .task > summary");
  await chat.waitForText("Here it is", ".tree .answer");
  await chat.page.click(".tree .tree > li > .task > summary");
  await chat.waitForText("Deeper", ".tree .tree .answer");
  await chat.assertIsJournal();
});

detail("conversations stand at the side, and going back shows them again", async (its) => {
  const { chat, puppet } = await its.asked();
  await chat.page.click("#new");
  assert.equal(await chat.page.locator(".turn").count(), 0);
  await chat.ask("Another matter");
  const other = await its.stage.puppet();
  other.say("Yes?");
  await chat.waitForText("Yes?");
  other.exit();
  await chat.waitForStatus("completed");
  puppet.say(" deep");
  await chat.page.click("#conversations a:has-text('How deep')");
  await chat.waitForText("Deep – very deep");
  await chat.page.goBack();
  await chat.waitForText("Yes?");
  await chat.assertIsJournal();
  puppet.exit();
  await chat.page.waitForSelector("#conversations:not(:has(.running:not([hidden])))");

  const { token } = await chat.guest();
  const conversation_id = chat.conversationId();
  await answerTo(its.gateway.port, token, { type: "delete", conversation_id });
  await chat.page.waitForSelector("#empty:visible");
  assert.deepEqual(await chat.allTexts("#conversations .title"), ["How deep is the sea?"]);
});

/** In the page: goes to the first message, and notes where the focus goes while there may be earlier ones.  Frames are late. */
async function readFromTop() {
  const thread = document.querySelector("#thread");
  const scrolled = new Promise((resolve) => thread.addEventListener("scrollend", resolve, { once: true }));
  thread.scrollTop = 0;
  await scrolled;
  window.left = [];
  const button = document.querySelector("#earlier");
  addEventListener("focusin", ({ target }) => target !== button && button.isConnected && window.left.push(target.id));
  const frame = requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (draw) => setTimeout(() => frame(draw), 100); // as where the machine is busy
}

detail("earlier messages come when asked for", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  await chat.page.selectOption("#agent", "slow");
  const counts = Array.from({ length: 27 }, (_, at) => `${at + 1} 0`); // 54 messages; a page has 50
  for (const [at, count] of counts.entries()) {
    await chat.ask(count);
    await chat.page.waitForSelector(`.turn:nth-of-type(${at + 1})[data-status=completed]`);
  }
  await chat.page.reload();
  await chat.page.waitForSelector("#earlier:visible");
  assert.deepEqual(await chat.allTexts(".turn .asked"), counts.slice(2));
  const place = () => chat.page.locator(".turn", { hasText: "3 0" }).first().evaluate((turn) => turn.getBoundingClientRect().top);
  await chat.page.evaluate(readFromTop);
  const before = await place();
  await chat.page.focus("#earlier");
  await chat.page.keyboard.press("Enter");
  await chat.page.waitForFunction((n) => document.querySelectorAll(".turn .asked").length === n, counts.length);
  await chat.page.waitForSelector("#earlier", { state: "hidden" });
  assert.deepEqual(await chat.allTexts(".turn .asked"), counts);
  const moved = (await place()) - before;
  assert.ok(Math.abs(moved) <= 2, `who reads there stays there, and was moved by ${moved} px`);
  assert.deepEqual(await chat.page.evaluate(() => window.left), [], "the button keeps the focus for the next page");
  await chat.assertIsJournal();
});

detail("the page fits a phone and works by keyboard alone", async (its) => {
  const profile = await its.profile({ viewport: { width: 360, height: 640 }, hasTouch: true });
  const chat = await its.chat({ profile });
  await chat.waitForState("live");
  await chat.page.keyboard.type("Hello"); // the field has the focus
  await chat.page.keyboard.press("Shift+Enter");
  await chat.page.keyboard.type("there");
  await chat.page.keyboard.press("Enter");
  const puppet = await its.stage.puppet();
  assert.equal(puppet.run.input, "Hello\nthere");
  puppet.say("x".repeat(2_000));
  await chat.waitForText("x".repeat(2_000));
  const wide = () => document.documentElement.scrollWidth > innerWidth;
  assert.equal(await chat.page.evaluate(wide), false);

  await chat.page.focus("#stop");
  await chat.page.keyboard.press("Enter");
  await chat.waitForStatus("cancelled");
  await chat.page.focus("#menu");
  await chat.page.keyboard.press("Enter");
  await chat.page.waitForSelector("#conversations a:visible");
  await chat.page.keyboard.press("Escape");
  await chat.page.waitForSelector("#conversations a", { state: "hidden" });
  await chat.assertIsJournal();
});
