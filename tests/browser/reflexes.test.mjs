// reflexes.test.mjs -- what people do without thinking, and what they then expect to see.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { detail, scene } from "./support/scene.mjs";
import { states } from "./support/states.mjs";
import { OTHER_SECRET, tokenOf } from "./support/tokens.mjs";

/** The texts of these elements, in the order in which they stand on the page. */
const order = (chat, selector) =>
  chat.page.locator(selector).evaluateAll((all) => all.map((each) => each.textContent.replaceAll("\n", "")));

scene("text, tools and questions stand in the order in which they came, also after a reload", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["I look.\n\n"], shown: "I look." });
  puppet.emit("tool_call", { call_id: "1", name: "search", arguments: { query: "backups" } });
  puppet.emit("tool_result", { call_id: "1", name: "search", output: "2", is_error: false });
  puppet.say("There are two.\n\n");
  puppet.emit("input_required", { input_id: "q1", kind: "approval", prompt: "Delete the old one?" });
  await chat.page.click(".question.open button:text-is('Approve')");
  await puppet.heard.take();
  puppet.say("Gone. And the name?\n\n");
  puppet.emit("input_required", { input_id: "q2", kind: "question", prompt: "Which?" });
  await chat.page.fill(".question.open input", "new-backups");
  await chat.page.press(".question.open input", "Enter");
  await puppet.heard.take();
  puppet.say("Good, new-backups it is.");
  puppet.exit();
  await chat.waitForStatus("completed");
  const steps = ".turn .stretch > .answer, .turn .tool code, .turn .question .prompt";
  const right = ["I look.", "search", "There are two.", "Delete the old one?", "Gone. And the name?", "Which?", "Good, new-backups it is."];
  assert.deepEqual(await order(chat, steps), right);
  await chat.assertIsJournal();
  await chat.page.reload();
  await chat.page.waitForSelector(".turn .question");
  assert.deepEqual(await order(chat, steps), right);
  await chat.assertIsJournal();
});

detail("a nested list has no hole behind it", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["1. a\n   - b\n2. c\n"], shown: "abc" });
  const { list, line } = await chat.page.locator(".answer ol").evaluate((list) => ({
    list: list.getBoundingClientRect().height,
    line: parseFloat(getComputedStyle(list).lineHeight),
  }));
  assert.ok(list < 3.9 * line, `three lines of ${line} px are ${list} px high`);
  puppet.exit();
});

detail("a line that an agent breaks in a plain item is broken", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["- one\n  two\n"], shown: "onetwo" });
  const { item, line } = await chat.page.locator(".answer li").evaluate((item) => ({
    item: item.getBoundingClientRect().height,
    line: parseFloat(getComputedStyle(item).lineHeight),
  }));
  assert.ok(item > 1.9 * line);
  puppet.exit();
});

scene("the Enter that ends a composition in Safari does not send", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  await chat.page.fill("#message", "にほん");
  const press = (keyCode) =>
    chat.page.locator("#message").evaluate((field, keyCode) => {
      field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", keyCode, bubbles: true, cancelable: true }));
    }, keyCode);
  await press(229);
  assert.equal(await chat.page.inputValue("#message"), "にほん");
  await press(13);
  const puppet = await its.stage.puppet();
  assert.equal(puppet.run.input, "にほん");
  puppet.exit();
});

detail("nor does it send a question that is edited", async (its) => {
  const { chat, puppet } = await its.asked();
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.page.click(".of-asked button[title='Edit and ask again']");
  await chat.page.locator(".editor textarea").evaluate((field) => {
    field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true, cancelable: true }));
  });
  assert.equal(await chat.page.locator(".editor textarea").count(), 1);
});

scene("each row of the list can be renamed, saved and deleted, and the focus is never lost", async (its) => {
  const { chat, puppet } = await its.asked();
  const { page } = chat;
  puppet.exit();
  await chat.waitForStatus("completed");
  await page.click("#new");
  await page.waitForSelector("#empty");
  const row = "#conversations li[data-conversation-id]";
  const open = async (entry) => {
    await page.hover(row);
    await page.click(`${row} .more`);
    await page.click(`#conversation-menu button:has-text('${entry}')`);
  };
  await open("Rename");
  await page.fill("dialog[open] input", "The: deep?");
  await page.keyboard.press("Enter");
  await chat.waitForText("The: deep?", `${row} .title`);
  await page.waitForSelector(`${row} .more:focus`);

  const download = page.waitForEvent("download");
  await open("Save as Markdown");
  const file = await download;
  assert.equal(file.suggestedFilename(), "The deep.md");
  const text = await readFile(await file.path(), "utf8");
  assert.match(text, /^# The: deep\?\n\n\*2 messages\*\n\n## Question, .* UTC\n\nHow deep is the sea\?\n\n## Answer, .* UTC\n\nDeep – very\n$/);
  await page.waitForSelector(`${row} .more:focus`);

  await open("Delete");
  await page.keyboard.press("Escape"); // asks nothing to stop, and deletes nothing
  await page.waitForSelector(`${row} .more:focus`);
  await open("Delete");
  await page.click("dialog[open] button.danger");
  await page.waitForSelector(row, { state: "detached" });
  await page.waitForSelector("#message:focus");
});

detail("j and k lead through the conversations", async (its) => {
  const { chat, puppet } = await its.asked({ text: "The first" });
  const { page } = chat;
  puppet.exit();
  await chat.waitForStatus("completed");
  await page.click("#new");
  await chat.ask("The second");
  (await its.stage.puppet()).exit();
  await page.waitForSelector("#conversations li[data-conversation-id] >> nth=1");
  await chat.waitForText("The second", "#title");
  await chat.waitForStatus("completed");
  await page.focus("#thread");
  for (const [key, title] of [["j", "The first"], ["j", "The first"], ["k", "The second"]]) {
    await page.keyboard.press(key);
    await chat.waitForText(title, "#title");
  }
});

scene("on a phone letters of fields have 16 px, and what is touched 44", async (its) => {
  const profile = await its.profile({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const { chat, puppet } = await its.asked({ profile, said: ["Well."] });
  puppet.emit("input_required", { input_id: "q", kind: "question", prompt: "Which sea?" });
  await chat.page.waitForSelector(".question.open");
  await chat.page.click("#menu");
  await chat.page.waitForSelector("#conversations a:visible");
  const small = await chat.page.evaluate(() => {
    const fields = [...document.querySelectorAll("input, textarea, select")].filter((each) => parseFloat(getComputedStyle(each).fontSize) < 16);
    const targets = [...document.querySelectorAll("button, a, select, summary")].filter((each) => {
      const { width, height } = each.getBoundingClientRect();
      return each.checkVisibility() && !each.closest(".answer") && !each.matches(".skip") && (height < 43.9 || width < 36);
    });
    return [...fields, ...targets].map((each) => each.outerHTML.slice(0, 90));
  });
  assert.deepEqual(small, []);
  puppet.exit();
});

detail("on a phone no button is narrower than its words", async (its) => {
  const profile = await its.profile({ viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
  const { chat, puppet } = await its.asked({ profile });
  puppet.exit(3);
  await chat.waitForStatus("failed");
  await chat.page.waitForSelector(".actions .took");
  const spill = await chat.page.locator(".actions button:visible").evaluateAll((all) =>
    all.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).map((each) => each.textContent),
  );
  assert.deepEqual(spill, []);
});

scene("Stop stands in the place of Send, Esc does the same, and the field keeps the focus", async (its) => {
  const { chat } = await its.asked();
  const { page } = chat;
  await page.fill("#message", "another");
  await page.waitForSelector("#send:enabled");
  await page.fill("#message", "");
  await page.click("#stop");
  await chat.waitForStatus("cancelled");
  await page.waitForSelector("#message:focus");
  await chat.ask("Once more");
  (await its.stage.puppet()).say("Well");
  await chat.waitForText("Well", ".turn:nth-of-type(2) .answer");
  await page.press("#message", "Escape");
  await page.waitForSelector(".turn:nth-of-type(2)[data-status=cancelled]");
  await page.waitForSelector("#message:focus");
});

scene("Esc closes what is open before it stops anything", async (its) => {
  const { chat, puppet } = await its.asked();
  const { page } = chat;
  await page.click("#tray-button");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#tray", { state: "detached" });
  await page.click("#more");
  await page.click("#conversation-menu button:has-text('Rename')");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog[open]", { state: "detached" });
  await page.waitForSelector("#more:focus");
  puppet.say(" deep");
  await chat.waitForText("Deep – very deep");
  puppet.exit();
  await chat.waitForStatus("completed");
});

scene("arrow up in the empty field edits the last question in its place", async (its) => {
  const { chat, puppet } = await its.asked();
  const { page } = chat;
  puppet.exit();
  await chat.waitForStatus("completed");
  await page.fill("#message", "a draft");
  await page.press("#message", "ArrowUp");
  assert.equal(await page.locator(".editor").count(), 0);
  await page.fill("#message", "");
  await page.press("#message", "ArrowUp");
  assert.equal(await page.inputValue(".editor textarea"), "How deep is the sea?");
  assert.equal(await page.inputValue("#message"), "");
  await page.fill(".editor textarea", "How wide is the sea?");
  await page.keyboard.press("Enter");
  const edited = await its.stage.puppet();
  assert.equal(edited.run.input, "How wide is the sea?");
  assert.deepEqual(edited.run.history, []);
  edited.exit();
  await chat.waitForText("2/2", ".of-asked .versions");
  assert.equal(await page.locator(".turn").count(), 1);
});

detail("of a question that cannot be edited yet, arrow up brings the text", async (its) => {
  const { chat, puppet } = await its.asked();
  puppet.exit();
  await chat.waitForStatus("completed");
  await its.network.cut();
  await chat.waitForState("waiting", "offline");
  await chat.ask("And the moon?");
  await chat.page.waitForSelector(".asked:text-is('And the moon?')");
  await chat.page.press("#message", "ArrowUp");
  assert.equal(await chat.page.inputValue("#message"), "And the moon?");
});

scene("an answer is made again, a question is edited in its place, and arrows lead to what was there", async (its) => {
  const { chat, puppet } = await its.asked();
  const { page } = chat;
  const answer = ".turn:nth-of-type(1) .answer", question = ".turn:nth-of-type(1) .asked";
  puppet.exit();
  await chat.waitForStatus("completed");
  const first = await chat.textOf(answer);
  await page.click(".turn .again");
  const again = await its.stage.puppet();
  assert.equal(again.run.input, "How deep is the sea?");
  assert.deepEqual(again.run.history, []);
  again.say("Very deep.");
  again.exit();
  await chat.waitForText("Very deep.", answer);
  await chat.waitForText("2/2", ".told .versions");
  await page.click(".told .versions .former");
  await chat.waitForText(first, answer);
  await chat.waitForText("1/2", ".told .versions");

  await page.click(".of-asked button[title='Edit and ask again']");
  assert.equal(await page.inputValue(".editor textarea"), "How deep is the sea?");
  await page.fill(".editor textarea", "How wide is the sea?");
  await page.keyboard.press("Enter");
  const edited = await its.stage.puppet();
  assert.equal(edited.run.input, "How wide is the sea?");
  edited.say("Wide.");
  edited.exit();
  await chat.waitForText("Wide.", answer);
  await chat.waitForText("2/2", ".of-asked .versions");
  assert.equal(await page.locator(".turn").count(), 1);
  await page.click(".of-asked .versions .former");
  await chat.waitForText("How deep is the sea?", question);
  await chat.waitForText("Very deep.", answer); // the newest below that question
  await page.click(".told .versions .former");
  await chat.waitForText(first, answer);
  await page.reload();
  await chat.waitForText(first, answer);
  await chat.waitForText("1/2", ".told .versions");
});

scene("choices are buttons; another answer can still be written", async (its) => {
  const { chat, puppet } = await its.asked({ said: [] });
  const { page } = chat;
  const options = ["Red", { id: "b", name: "Deep blue" }, { name: "nameless" }, 5, null];
  puppet.emit("input_required", { input_id: "q", kind: "question", prompt: "Which?", options });
  await page.waitForSelector("[data-input-id=q].open");
  assert.deepEqual(await chat.allTexts("[data-input-id=q] .choices button"), ["Red", "Deep blue"]);
  assert.equal(await page.locator("[data-input-id=q] input").count(), 1);
  await page.click("[data-input-id=q] button:text-is('Deep blue')");
  assert.equal((await puppet.heard.take()).answer, "b");
  await chat.waitForText("Answered: Deep blue", "[data-input-id=q] .outcome");
  puppet.emit("input_required", { input_id: "a", kind: "approval", prompt: "May I?", options: ["for an hour"] });
  await page.waitForSelector("[data-input-id=a].open");
  assert.deepEqual(await chat.allTexts("[data-input-id=a] button"), ["Approve", "for an hour", "Decline"]);
  await page.click("[data-input-id=a] button:text-is('Approve')");
  assert.equal((await puppet.heard.take()).answer, true);
  const offered = [
    { id: "no", name: "Never", kind: "reject_always" },
    { id: "all", name: "Allow for this conversation", kind: "allow_always" },
    { id: "one", name: "Allow once", kind: "allow_once" },
  ];
  puppet.emit("input_required", { input_id: "b", kind: "approval", prompt: "And this?", options: offered });
  await page.waitForSelector("[data-input-id=b].open");
  assert.deepEqual(await chat.allTexts("[data-input-id=b] button"), ["Allow once", "Allow for this conversation", "Never"]);
  await page.click("[data-input-id=b] button:text-is('Allow for this conversation')");
  assert.equal((await puppet.heard.take()).answer, "all");
  await chat.waitForText("Answered: Allow for this conversation", "[data-input-id=b] .outcome");
  puppet.exit();
  await chat.waitForStatus("completed");
});

/** A model that runs each message as a command, and answers with what that put out. */
async function modelThatRuns() {
  const chunk = (choice) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: null, ...choice }] })}\n\n`;
  const turnFor = ({ messages }) => {
    const { role, content } = messages.at(-1);
    const said = content.startsWith("{") ? JSON.parse(content).output : content;
    if (role === "tool") return [{ delta: { content: said } }, { finish_reason: "stop" }];
    const call = { name: "terminal", arguments: JSON.stringify({ command: content }) };
    return [{ delta: { tool_calls: [{ index: 0, id: "c", type: "function", function: call }] } }, { finish_reason: "tool_calls" }];
  };
  const server = createServer(async (request, response) => {
    const turn = turnFor(await json(request));
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.end(`${turn.map(chunk).join("")}data: [DONE]\n\n`);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { url: `http://127.0.0.1:${server.address().port}/v1`, close: () => (server.closeAllConnections(), server.close()) };
}

scene("a program that is allowed for the conversation is asked about once", async (its) => {
  const model = await modelThatRuns();
  try {
    await its.reconfigure({
      models: [{ name: "m", base_url: model.url, model: "m" }],
      agents: [{ name: "operator", kind: "react", model: "m", tools: ["terminal"], default: true }],
      terminal: { sandbox: "none" },
    });
    const chat = await its.chat();
    const buttons = ".turn .question.open button";
    const answered = (n) => chat.page.waitForFunction((count) => document.querySelectorAll(".turn[data-status=completed]").length === count, n);
    await chat.ask("echo one");
    await chat.page.waitForSelector(buttons);
    assert.deepEqual(await chat.allTexts(buttons), ["Allow once", "Allow echo in this conversation", "Reject"]);
    await chat.page.click(`${buttons}:text-is('Allow echo in this conversation')`);
    await answered(1);
    assert.equal(await chat.textOf(".turn .question .outcome"), "Answered: Allow echo in this conversation");
    await chat.ask("echo two");
    await answered(2);
    assert.equal(await chat.page.locator(".turn .question").count(), 1);
    assert.deepEqual(await order(chat, ".turn .answer"), ["one", "two"]);
    await chat.ask("echo three; echo four");
    await chat.page.waitForSelector(buttons);
    assert.deepEqual(await chat.allTexts(buttons), ["Approve", "Decline"]);
    await chat.page.click(`${buttons}:text-is('Decline')`);
    await chat.page.waitForSelector(".turn .question .outcome:text-is('Declined')");
  } finally {
    model.close();
  }
});

scene("conversations stand below their days, and an answer says who gave it, when, and what it took", async (its) => {
  const profile = await its.profile({ locale: "en-US", timezoneId: "UTC" });
  const { chat, puppet } = await its.asked({ profile, said: ["Well."] });
  puppet.emit("result", { usage: { prompt_tokens: 1200, completion_tokens: 34 }, total_cost_usd: 0.0123 });
  puppet.exit();
  await chat.waitForStatus("completed");
  const facts = (await chat.textOf(".turn .told > .actions .took")).split(" · ");
  assert.equal(facts[0], "puppet");
  assert.match(facts[1], /^\d{1,2}:\d\d [AP]M$/);
  assert.match(facts[2], /^[\d.]+ m?s$/);
  assert.deepEqual(facts.slice(3), ["1,234 tokens", "$0.012"]);
  const days = () => chat.page.locator("#conversations > li").evaluateAll((all) => all.map((each) => each.className || "row"));
  assert.deepEqual(await days(), ["day", "row"]);
  assert.equal(await chat.textOf("#conversations .day"), "Today");
  const tomorrow = await its.chat({ profile, prepare: (page) => page.clock.setFixedTime(Date.now() + 86_400_000) });
  await tomorrow.page.waitForSelector("#conversations .day");
  assert.equal(await tomorrow.textOf("#conversations .day"), "Yesterday");
});

for (const [locale, time] of [
  ["en-US", /^\d{1,2}:\d\d\s[AP]M$/],
  ["de-DE", /^\d?\d:\d\d$/],
  ["en-GB", /^\d?\d:\d\d$/],
])
  scene(`the time of day is written as browsers do in ${locale}, and days are English`, async (its) => {
    const profile = await its.profile({ locale });
    const { chat, puppet } = await its.asked({ profile });
    const { page } = chat;
    puppet.emit("input_required", { input_id: "q", kind: "question", prompt: "How many?", timeout_s: 7_200 });
    const [, day, waits] = /^Waits until (\w+), (.*)$/.exec(await page.textContent("[data-input-id=q] .hint:has-text('Waits')")) ?? [];
    assert.ok(["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"].includes(day), day);
    assert.match(waits, time);
    puppet.exit();
    await chat.waitForStatus("completed");
    const [, ended] = (await chat.textOf(".turn .told > .actions .took")).split(" · ");
    assert.match(ended, time);
    await page.click("#later");
    await page.fill("#schedules-dialog textarea", "What is new?");
    await page.selectOption("select[aria-label='How often']", "week");
    await page.selectOption("select[aria-label='Day of the week']", "Wednesday");
    await page.fill("input[aria-label=Time]", "14:36");
    await page.click("#schedules-dialog form button[type=submit]");
    const words = await page.textContent("#schedules-dialog [data-schedule-id] .hint");
    const own = locale === "en-US" ? "2:36\\sPM" : "14:36";
    assert.match(words, new RegExp(`^every Wednesday at ${own} · next ([A-Z][a-z]{2} \\d{1,2}, )?${own}$`));
  });

detail("an answer says which agent gave it, also where there is one only", async (its) => {
  its.gateway.config.agents.pop();
  await its.reconfigure({});
  const { chat, puppet } = await its.asked();
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.page.waitForSelector(".turn .took");
  assert.equal((await chat.textOf(".turn .took")).split(" · ")[0], "puppet");
});

detail("a conversation that begins with a file alone has its name, and one that begins with blanks its first words", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  const buffer = Buffer.from("depth;temperature\n");
  await chat.page.setInputFiles("#composer input[type=file]", [{ name: "soundings.csv", mimeType: "text/csv", buffer }]);
  await chat.page.waitForSelector("#composer .file[data-state=there]");
  await chat.page.press("#message", "Enter");
  (await its.stage.puppet()).exit();
  await chat.waitForText("soundings.csv", "#title");
  await chat.waitForText("soundings.csv", "#conversations .title");
  await chat.page.click("#new");
  await chat.ask(`${" ".repeat(90)}How deep?`);
  (await its.stage.puppet()).exit();
  await chat.waitForStatus("completed");
  await chat.waitForText("How deep?", "#conversations li:has(a[aria-current]) .title");
});

scene("a question is Markdown, a tool that waits for approval says so, and the time is counted down", async (its) => {
  const { chat, puppet } = await its.asked({ said: [] });
  const given = { command: "rm -rf *old*" };
  puppet.emit("tool_call", { call_id: "1", name: "terminal", arguments: given });
  puppet.emit("input_required", { input_id: "a", kind: "approval", prompt: "Run this?\nrm -rf *old*", tool: "terminal", arguments: given });
  puppet.emit("input_required", { input_id: "q", kind: "question", prompt: "Take **3** of `them`?", timeout_s: 300 });
  await chat.page.waitForSelector("[data-input-id=q] .prompt strong:text-is('3')");
  await chat.page.waitForSelector("[data-input-id=q] .prompt code:text-is('them')");
  assert.match(await chat.textOf("[data-input-id=q] .expiry"), /^Waits [45]:\d\d more$/);
  assert.equal(await chat.textOf(".tool .state"), "waits for you");
  assert.equal(await chat.textOf("[data-input-id=a] .command"), "rm -rf *old*");
  assert.equal(await chat.textOf("[data-input-id=a] .prompt"), "Run this?");
  await chat.page.click("[data-input-id=a] button:text-is('Approve')");
  await puppet.heard.take();
  await chat.page.waitForSelector(".tool[data-state=running]");
  puppet.exit();
});

detail("an answer of 80 kB brings no button for messages that are not there", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["word ".repeat(16_000)], shown: "word ".repeat(16_000).trim() });
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.page.reload();
  await chat.waitForStatus("completed");
  await chat.ask("And then?"); // what was asked before this has been answered when this is
  const next = await its.stage.puppet();
  next.exit();
  await chat.page.waitForSelector(".turn:nth-of-type(2)[data-status=completed]");
  assert.equal(await chat.page.locator("#earlier").count(), 0);
});

scene("what waits for room says why, stands in the list, and starts in its turn", async (its) => {
  await its.reconfigure({ limits: { tasks_per_owner: 1 } });
  const { chat, puppet } = await its.asked();
  const texts = ["The second", "The third", "The fourth"];
  for (const text of texts) {
    await chat.page.click("#new");
    await chat.ask(text);
    await chat.page.waitForSelector(`.asked:text-is("${text}")`);
  }
  await chat.waitForText("Waiting for room: 1 task may run at once. It starts when one has ended.", ".turn .marks");
  await chat.page.waitForSelector("#conversations li:has(.waits) >> nth=2");
  let running = puppet;
  for (const text of texts) {
    running.exit();
    running = await its.stage.puppet();
    assert.equal(running.run.input, text);
  }
  running.exit();
  await chat.page.waitForSelector("#conversations .waits", { state: "detached" });
});

scene("a conversation that begins in the background has a name, can be renamed, and says where its answer is", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  await chat.page.click("#background");
  await chat.ask("Count the sand");
  const puppet = await its.stage.puppet();
  await chat.waitForText("Count the sand", "#title");
  await chat.waitForText("Count the sand", "#conversations .title");
  await chat.waitForText(" What was asked here runs in the background: it is in the tray.", "#elsewhere");
  await chat.page.click("#more");
  await chat.page.waitForSelector("#conversation-menu button:has-text('Rename')");
  puppet.exit();
});

scene("an empty conversation suggests what its agent suggests, and nothing else", async (its) => {
  const chat = await its.chat();
  await chat.page.waitForSelector("#empty");
  assert.deepEqual(await chat.allTexts(".tries button"), []);
  its.gateway.config.agents[0].examples = ["How deep is the sea?", "Who lives there?"];
  await its.reconfigure({});
  await chat.page.evaluate(() => dispatchEvent(new Event("online")));
  await chat.page.click(".tries button:text-is('Who lives there?')");
  const puppet = await its.stage.puppet();
  assert.equal(puppet.run.input, "Who lives there?");
  puppet.exit();
});

detail("suggestions are those of the agent that is chosen, which is asked", async (its) => {
  const [puppet, slow] = its.gateway.config.agents;
  Object.assign(puppet, { examples: ["How deep is the sea?"], description: "Knows the sea." });
  its.gateway.config.agents = [{ ...slow, examples: ["3 10"], description: "Counts." }, { ...puppet, default: false }];
  its.gateway.config.agents[0].default = true;
  await its.reconfigure({});
  const chat = await its.chat();
  await chat.page.waitForSelector(".tries button:text-is('3 10')");
  await chat.page.selectOption("#agent", "puppet");
  await chat.waitForText("Knows the sea.", "#empty p");
  await chat.page.click(".tries button:text-is('How deep is the sea?')");
  (await its.stage.puppet()).exit(); // it is the puppet that was asked
  await chat.waitForStatus("completed");
});

detail("the state of the connection can be seen in forced colours", async (its) => {
  const profile = await its.profile({ viewport: { width: 390, height: 844 }, forcedColors: "active" });
  const chat = await its.chat({ profile });
  await chat.waitForState("live");
  const [dot, ground] = await chat.page.evaluate(() =>
    [".dot", "body"].map((each) => getComputedStyle(document.querySelector(each)).backgroundColor),
  );
  assert.notEqual(dot, ground);
});

scene("while the gateway is away the page says so in one line, and what to expect", async (its) => {
  const { chat, puppet } = await its.asked();
  puppet.exit();
  await chat.waitForStatus("completed");
  await its.network.cut();
  await chat.waitForState("waiting", "offline");
  const again = async () => {
    await chat.page.click("#reconnect").catch(() => {});
  };
  for (let n = 0; n < 3; n++) {
    await chat.waitForState("waiting", "offline");
    await again();
  }
  await chat.waitForText("The gateway does not answer. What you write is kept, and sent when it is back.", "#why-not");
  await its.network.restore();
  await chat.page.evaluate(() => dispatchEvent(new Event("online")));
  await chat.waitForState("live");
  await chat.page.waitForSelector("#why-not", { state: "detached" });
});

scene("a gateway that wants a token asks for one, and takes it", async (its) => {
  const chat = await states.signIn(its);
  const { page } = chat;
  assert.equal(await page.locator("#message").count(), 0, "there is no field that leads nowhere");
  assert.equal(await page.getAttribute("a.sign-in", "href"), "https://login.example/start");
  assert.equal(await page.title(), "Reef");
  await chat.waitForText("Reef", "#side header strong");
  await page.fill("#sign-in input", "no token at all");
  await page.press("#sign-in input", "Enter");
  await chat.waitForText("This token is not good", "#sign-in h2");
  await page.fill("#sign-in input", tokenOf("ada"));
  await page.press("#sign-in input", "Enter");
  await chat.waitForState("live");
  await chat.ask("Am I in?");
  (await its.stage.puppet()).exit();
  await chat.waitForStatus("completed");
});

scene("who is signed out while reading goes on reading, and can sign in again", async (its) => {
  const chat = await states.signedOut(its);
  const { page } = chat;
  assert.equal(await page.locator(".turn").count(), 1);
  await page.click("#why-not button:text-is('Sign in')");
  await chat.waitForText("This token is not good", "#sign-in h2");
  await page.fill("#sign-in input", tokenOf("ada", OTHER_SECRET));
  await page.press("#sign-in input", "Enter");
  await chat.waitForState("live");
  await page.waitForSelector(".turn");
  const inspector = await its.chat({ file: "inspector.html" }); // in another profile
  await inspector.waitForText("Sign in is needed", "#sign-in h2");
});

detail("where errors are short, why it failed is said once", async (its) => {
  await its.reconfigure({ errors: "short" });
  const { chat, puppet } = await its.asked();
  puppet.exit(3);
  await chat.waitForStatus("failed");
  const shown = async () => [await chat.allTexts(".ending .sentence"), await chat.page.locator(".ending .why").count()];
  await chat.page.waitForSelector(".ending .sentence");
  assert.deepEqual(await shown(), [["The assistant broke off. What had been said is kept."], 0]);
  await chat.page.reload();
  await chat.page.waitForSelector(".ending .sentence");
  assert.deepEqual(await shown(), [["The assistant broke off. What had been said is kept."], 0]);
});

detail("letters of a choice stand where those of a field do, and a choice at the message is quiet", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  await chat.page.click("#later");
  await chat.page.waitForSelector("#schedules-dialog select");
  const style = (selector, of) =>
    chat.page.evaluate(([selector, of]) => getComputedStyle(document.querySelector(selector))[of], [selector, of]);
  for (const of of ["appearance", "paddingLeft", "borderTopColor"]) {
    const wanted = of === "appearance" ? "none" : await style("#search", of === "paddingLeft" ? "paddingRight" : of);
    assert.equal(await style("#schedules-dialog select", of), wanted, of);
  }
  assert.equal(await style("#agent", "backgroundColor"), "rgba(0, 0, 0, 0)");
});
