// search.test.mjs -- conversations among many: found by their words, pinned, archived.

import assert from "node:assert/strict";
import { answerTo } from "./support/journal.mjs";
import { scene } from "./support/scene.mjs";

const row = "#conversations li[data-conversation-id]";

/** Asks this in a new conversation, and gets that for an answer. */
async function told(its, chat, question, answer) {
  await chat.page.evaluate(() => document.querySelector("#new").click());
  await chat.page.waitForSelector("#empty");
  await chat.ask(question);
  const puppet = await its.stage.puppet();
  puppet.say(answer);
  puppet.exit();
  await chat.page.waitForSelector(`.turn[data-status=completed]:has-text("${question}")`);
}

async function choose(chat, title, entry) {
  const its = chat.page.locator(row).filter({ hasText: title });
  await its.hover();
  await its.locator(".more").click();
  await chat.page.click(`#conversation-menu button:text-is("${entry}")`);
}

const titles = (chat) => chat.page.locator(`${row} .title`).allTextContents();

scene("what was said is found by its words, and stands there marked when one goes to it", async (its) => {
  const chat = await its.chat();
  const { page } = chat;
  await chat.waitForState("live");
  await told(its, chat, "Where do gannets nest?", `Gannets nest on **Bass Rock**.\n\n${"Much else.\n\n".repeat(80)}`);
  await told(its, chat, "And puffins?", "Puffins nest in burrows.");
  await page.fill("#search", "BASS rock");
  await page.waitForSelector("#found li");
  assert.deepEqual(await page.locator("#found mark").allTextContents(), ["Bass", "Rock"]);
  assert.match(await chat.textOf("#found .snippet"), /^Gannets nest on Bass Rock\./, "without the marks of Markdown");
  await page.click("#found a");
  await page.waitForSelector(".turn[data-found]:has-text('Bass Rock')");
  assert.equal(await page.evaluate(() => CSS.highlights.get("found").size), 2);
  const isSeen = await page.locator(".turn[data-found] strong").evaluate((word) => {
    const at = word.getBoundingClientRect();
    return at.top >= 0 && at.bottom <= innerHeight;
  });
  assert.equal(isSeen, true, "the words are in view");

  await page.fill("#search", "nest");
  await page.waitForFunction(() => document.querySelectorAll("#found li").length === 4); // a title, three messages
  await page.fill("#search", "walrus");
  await chat.waitForText("Nothing has all of these words.", "nav[aria-label=Found] .nothing");
  await page.press("#search", "Escape");
  assert.equal(await page.inputValue("#search"), "");
  await page.waitForFunction((rows) => document.querySelectorAll(rows).length === 2, row);
});

scene("what is found on another branch, or far above, is brought there", async (its) => {
  const chat = await its.chat();
  const { page } = chat;
  await chat.ask("The first words");
  const first = await its.stage.puppet();
  first.say("An old answer about cormorants.");
  first.exit();
  await chat.waitForStatus("completed");
  const { token } = await chat.guest();
  const conversation_id = chat.conversationId();
  for (let n = 0; n < 60; n++) {
    await answerTo(its.gateway.port, token, { type: "chat", conversation_id, message: `Round ${n}`, when_busy: "enqueue" });
    const puppet = await its.stage.puppet();
    puppet.say(`Answer ${n}`);
    puppet.exit();
  }
  await page.waitForSelector(".turn[data-status=completed]:has-text('Answer 59')");
  await page.click(".turn:has-text('Round 59') .of-asked button[title='Edit and ask again']");
  await page.fill(".editor textarea", "In other words");
  await page.keyboard.press("Enter");
  const other = await its.stage.puppet();
  other.say("Another answer");
  other.exit();
  await page.waitForSelector(".turn[data-status=completed]:has-text('Another answer')");
  await page.reload();
  await page.waitForSelector("#earlier");
  await page.fill("#search", "cormorants");
  await page.click("#found a:has-text('cormorants')");
  await page.waitForSelector(".turn[data-found]:has-text('cormorants')");
  await page.fill("#search", '"answer 59"');
  await page.click("#found a:has-text('Answer 59')"); // not one of the words before
  await page.waitForSelector(".turn[data-found]:has-text('Answer 59')");
  await page.waitForSelector(".turn:has-text('Another answer')", { state: "detached" });
});

scene("pinned ones stand first, archived ones apart, on every device", async (its) => {
  const profile = await its.profile();
  const chat = await its.chat({ profile });
  await chat.waitForState("live");
  for (const name of ["One", "Two", "Three"]) await told(its, chat, name, "Yes.");
  await choose(chat, "One", "Pin");
  await chat.waitForText("Pinned", "#conversations .day");
  assert.deepEqual(await titles(chat), ["One", "Three", "Two"]);
  const second = await its.chat({ profile: await its.profile({ storageState: await profile.storageState({ indexedDB: true }) }) });
  await second.page.waitForFunction((rows) => document.querySelectorAll(rows).length === 3, row);
  assert.deepEqual(await titles(second), ["One", "Three", "Two"]);
  await choose(chat, "Three", "Archive");
  for (const each of [chat, second]) {
    await each.page.waitForFunction((rows) => document.querySelectorAll(rows).length === 2, row);
    assert.deepEqual(await titles(each), ["One", "Two"]);
  }
  await second.page.click("#archive");
  await second.page.waitForFunction((rows) => document.querySelectorAll(rows).length === 3, row);
  await choose(second, "Three", "Out of the archive");
  await chat.page.waitForFunction((rows) => document.querySelectorAll(rows).length === 3, row);
  await choose(chat, "One", "Unpin");
  await second.page.waitForFunction(
    () => [...document.querySelectorAll("#conversations .day")].every(({ textContent }) => textContent !== "Pinned"),
  );
});
