// journey.test.mjs -- an hour's use: thirty steps of a person's day, over three tabs and two devices, with
// cuts between.  What was asked is asked once, and what was said stands everywhere, as the journal has it.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { Network } from "./support/network.mjs";
import { tasksOf } from "./support/journal.mjs";
import { Chat, scene } from "./support/scene.mjs";

const last = ".turn:last-of-type";
const row = "#conversations li[data-conversation-id]";

/** The device that is carried about, on a network of its own. */
async function phoneOf(its, address) {
  const network = new Network(() => its.gateway.port);
  await network.restore();
  const profile = await its.profile({ viewport: { width: 390, height: 760 }, hasTouch: true, isMobile: true });
  const page = await profile.newPage();
  page.on("pageerror", (error) => its.faults.push(String(error)));
  await page.addInitScript(() => {
    if (navigator.clipboard) navigator.clipboard.writeText = async (text) => void (window.copied = text);
  });
  await page.goto(`http://127.0.0.1:${network.port}/${new URL(address).hash}`);
  return { phone: new Chat(page, its), mobile: network };
}

const answerIs = (chat, text) => chat.waitForText(text, `${last} .answer`);
const lastIs = (chat, status) => chat.page.waitForSelector(`${last}[data-status=${status}]`, { state: "attached" });
const wake = ({ page }) => page.evaluate(() => dispatchEvent(new Event("online")));

/** Cut off and back, as in a tunnel. */
async function tunnel(network, ...chats) {
  await network.cut();
  await network.restore();
  for (const chat of chats) await wake(chat);
}

async function choose({ page }, title, entry) {
  const its = page.locator(row).filter({ hasText: title });
  await its.hover();
  await its.locator(".more").click();
  await page.click(`#conversation-menu button:text-is("${entry}")`);
}

/** The list on the phone lies behind a button. */
const list = ({ page }) => page.click("#menu");

/** The day.  Each step finds what the steps before have left in `day`. */
const steps = {
  async "opens the page at the desk"(day, its) {
    day.desk = await its.chat({ profile: (day.profile = await its.profile()) });
    await day.desk.waitForState("live");
  },
  async "asks, and gets the beginning of an answer"(day, its) {
    await day.desk.ask("How deep is the sea?");
    day.puppet = await its.stage.puppet();
    day.puppet.say("Deep", " – ", "very");
    await answerIs(day.desk, "Deep – very");
    day.id = day.desk.conversationId();
  },
  async "loads the page again in mid-answer"(day) {
    await day.desk.page.reload();
    await answerIs(day.desk, "Deep – very");
  },
  async "goes through a tunnel while the answer goes on"(day, its) {
    await its.network.cut();
    day.puppet.say(" deep");
    await its.network.restore();
    await wake(day.desk);
    await answerIs(day.desk, "Deep – very deep");
  },
  async "takes the phone along, by the code on the desk's page"(day, its) {
    await day.desk.page.click("#hand-over");
    await day.desk.page.waitForSelector(".qr[data-ready]");
    await day.desk.page.click("#handover-dialog .copy");
    const address = await day.desk.page.evaluate(() => window.copied);
    await day.desk.page.keyboard.press("Escape");
    Object.assign(day, await phoneOf(its, address));
    await day.phone.page.click("#arrival button:text-is('Continue here')");
    await list(day.phone);
    await day.phone.page.click(`${row} a`);
    await answerIs(day.phone, "Deep – very deep");
  },
  async "reads the end of the answer on both"(day) {
    day.puppet.say(" indeed.");
    day.puppet.exit();
    for (const chat of [day.desk, day.phone]) await answerIs(chat, "Deep – very deep indeed.");
  },
  async "asks on, from the phone"(day, its) {
    await day.phone.ask("And how wide?");
    day.puppet = await its.stage.puppet();
    day.puppet.say("Wide");
    for (const chat of [day.desk, day.phone]) await answerIs(chat, "Wide");
  },
  async "stops it at the desk while the phone is in a tunnel"(day) {
    await day.mobile.cut();
    await day.desk.page.click("#stop");
    await lastIs(day.desk, "cancelled");
    await day.mobile.restore();
    await wake(day.phone);
    await lastIs(day.phone, "cancelled");
  },
  async "opens a second tab"(day, its) {
    day.tab = await its.chat({ profile: day.profile, hash: `#${day.id}` });
    await lastIs(day.tab, "cancelled");
  },
  async "begins another conversation there"(day, its) {
    await day.tab.page.click("#new");
    await day.tab.ask("Plan the week");
    const puppet = await its.stage.puppet();
    puppet.say("Monday: read.");
    puppet.exit();
    await lastIs(day.tab, "completed");
    day.week = day.tab.conversationId();
  },
  async "has something done in the background"(day, its) {
    await day.tab.page.click("#background");
    await day.tab.ask("Index the archive");
    day.index = await its.stage.puppet();
    day.index.emit("progress", { progress: 0.3, note: "1,204 of 4,010 files" });
    await day.tab.page.waitForSelector("#tray [data-status=running]");
    await day.tab.page.click("#background");
  },
  async "names the conversation in the first tab, and the second has the name"(day) {
    await choose(day.desk, "Plan the week", "Rename");
    await day.desk.page.fill("dialog[open] input", "The week");
    await day.desk.page.keyboard.press("Enter");
    await day.tab.waitForText("The week", "#title");
  },
  async "attaches a file, loads the page again, and sends it"(day, its) {
    const file = { name: "log.txt", mimeType: "text/plain", buffer: Buffer.from("10,935 m") };
    await day.desk.page.setInputFiles("input[type=file]", [file]);
    await day.desk.page.waitForSelector("#composer .file[data-state=there]");
    await day.desk.page.reload();
    await day.desk.page.waitForSelector("#composer .file[data-state=there]");
    await day.desk.ask("What is in it?");
    day.puppet = await its.stage.puppet();
    const [part] = day.puppet.run.parts.filter(({ type }) => type === "file");
    assert.equal(String(await readFile(part.path)), "10,935 m");
  },
  async "is asked for leave at the desk, and gives it on the phone"(day) {
    day.puppet.emit("input_required", { input_id: "q1", kind: "approval", prompt: "Read it all?" });
    await day.desk.page.waitForSelector(".question.open");
    await day.phone.page.click(".question.open button:text-is('Approve')");
    const { answer } = await day.puppet.heard.take();
    assert.equal(answer, true);
    await day.desk.page.waitForSelector(".question:not(.open)");
    day.puppet.say("A depth.");
    day.puppet.exit();
    for (const chat of [day.desk, day.phone]) await lastIs(chat, "completed");
  },
  async "writes without a network, leaves, and it is sent once"(day, its) {
    await its.network.cut();
    await day.desk.waitForState("waiting", "offline");
    await day.desk.ask("Which ship was it?");
    await day.desk.page.close();
    await its.network.restore();
    day.desk = await its.chat({ profile: day.profile, hash: `#${day.id}` });
    day.puppet = await its.stage.puppet();
    assert.equal(day.puppet.run.input, "Which ship was it?");
    day.puppet.say("The Challenger.");
    day.puppet.exit();
    for (const chat of [day.desk, day.phone]) await answerIs(chat, "The Challenger.");
  },
  async "asks it in other words"(day, its) {
    await day.desk.page.hover(last);
    await day.desk.page.click(`${last} button[title='Edit and ask again']`);
    await day.desk.page.fill(".editor textarea", "Which ship was it, and when?");
    await day.desk.page.keyboard.press("Enter");
    day.puppet = await its.stage.puppet();
    day.puppet.say("The Challenger, 1875.");
    day.puppet.exit();
    for (const chat of [day.desk, day.phone]) await answerIs(chat, "The Challenger, 1875.");
  },
  async "goes back to the first wording on the phone, and the desk follows"(day) {
    await day.phone.page.click(`${last} .of-asked .former`);
    for (const chat of [day.phone, day.desk]) await answerIs(chat, "The Challenger.");
  },
  async "has it answered once more, through a tunnel"(day, its) {
    await day.desk.page.hover(last);
    await day.desk.page.click(`${last} .again`);
    const puppet = await its.stage.puppet();
    puppet.say("HMS ");
    await tunnel(its.network, day.desk, day.tab);
    puppet.say("Challenger.");
    puppet.exit();
    for (const chat of [day.desk, day.phone]) await answerIs(chat, "HMS Challenger.");
  },
  async "finds on the phone what was said"(day) {
    await list(day.phone);
    await day.phone.page.fill("#search", "monday");
    await day.phone.page.click("#found a:has(.snippet mark)");
    await day.phone.page.waitForSelector(".turn[data-found]:has-text('Monday')");
  },
  async "pins it there, and it stands first at the desk"(day) {
    await day.phone.page.click("#more");
    await day.phone.page.click("#conversation-menu button:text-is('Pin')");
    await day.desk.waitForText("Pinned", "#conversations .day");
    await day.desk.waitForText("The week", `${row} .title`);
  },
  async "sees the background task end, from another conversation"(day) {
    day.index.say("4,010 files.");
    day.index.exit();
    await day.tab.page.waitForSelector("#tray [data-fresh] [data-status=completed]");
  },
  async "loses the gateway in mid-answer"(day, its) {
    await day.desk.ask("And the deepest lake?");
    day.puppet = await its.stage.puppet();
    day.puppet.say("Baikal");
    await answerIs(day.desk, "Baikal");
    await its.gateway.stop("SIGKILL");
    await its.gateway.start();
    for (const chat of [day.desk, day.tab]) await wake(chat);
    await lastIs(day.desk, "failed");
    await answerIs(day.desk, "Baikal"); // what had been said is kept
  },
  async "tries that again"(day, its) {
    await day.desk.page.click(`${last} .retry`);
    const puppet = await its.stage.puppet();
    assert.equal(puppet.run.input, "And the deepest lake?");
    puppet.say("Baikal, 1,642 m.");
    puppet.exit();
    await answerIs(day.desk, "Baikal, 1,642 m.");
  },
  async "does not notice that the gateway is changed for another one"(day, its) {
    await its.gateway.stop();
    await its.gateway.start();
    for (const chat of [day.desk, day.tab, day.phone]) await wake(chat);
    for (const chat of [day.desk, day.tab, day.phone]) await chat.waitForState("live");
  },
  async "shows the conversation to somebody by a link"(day, its) {
    await day.desk.page.click("#more");
    await day.desk.page.click("#conversation-menu button:text-is('Share')");
    await day.desk.page.click("#share-dialog form button[type=submit]");
    await day.desk.page.waitForSelector("#share-dialog [data-share-id]");
    const { hash } = new URL(await day.desk.page.inputValue("#link"));
    day.reader = await its.chat({ profile: await its.profile(), hash });
    await answerIs(day.reader, "Baikal, 1,642 m.");
  },
  async "and takes it back"(day) {
    await day.desk.page.click("[data-share-id] button");
    await day.desk.page.waitForSelector("[data-share-id]", { state: "detached" });
    await day.desk.page.keyboard.press("Escape");
    await day.reader.waitForText("This link is good no more", "#gone h1");
  },
  async "leaves something for tomorrow"(day) {
    await day.desk.page.fill("#message", "What is new?");
    await day.desk.page.click("#later");
    await day.desk.page.click("#schedules-dialog form button[type=submit]");
    await day.desk.page.waitForSelector("[data-schedule-id]");
    await day.desk.page.keyboard.press("Escape");
  },
  async "reads a long answer on the way, through five tunnels"(day, its) {
    await list(day.phone);
    await day.phone.page.press("#search", "Escape");
    await day.phone.page.click(`${row} a:has-text('How deep')`);
    await answerIs(day.phone, "Baikal, 1,642 m.");
    await day.phone.ask("Count");
    const puppet = await its.stage.puppet();
    for (let n = 0; n < 2_000; n++) {
      puppet.say(`${n} `);
      if (n % 400 === 200) await tunnel(day.mobile, day.phone);
    }
    puppet.exit();
    for (const chat of [day.phone, day.desk]) await lastIs(chat, "completed");
  },
  async "puts the week away, and keeps a copy of the rest"(day) {
    await choose(day.desk, "The week", "Archive");
    await day.desk.page.waitForFunction((rows) => document.querySelectorAll(rows).length === 1, row);
    const download = day.desk.page.waitForEvent("download");
    await choose(day.desk, "How deep", "Save as Markdown");
    const text = await readFile(await (await download).path(), "utf8");
    for (const said of ["Deep – very deep indeed.", "HMS Challenger.", "Baikal, 1,642 m."]) assert.ok(text.includes(said), said);
  },
  async "deletes the week on the phone, and the tab that shows it leaves"(day) {
    await list(day.phone);
    await day.phone.page.click("#archive");
    await choose(day.phone, "The week", "Delete");
    await day.phone.page.click("dialog[open] button.danger");
    await day.tab.page.waitForSelector("#empty");
  },
};

scene("thirty steps of a day, over three tabs and two devices", { timeout: 580_000 }, async (its) => {
  assert.equal(Object.keys(steps).length, 30);
  const day = {};
  try {
    for (const [name, step] of Object.entries(steps)) {
      try {
        await step(day, its);
      } catch (error) {
        throw new Error(`the person ${name}: ${error.message}`, { cause: error });
      }
    }
    const { token } = await day.desk.guest();
    const asked = (await tasksOf(its.gateway.port, token, day.id)).map(({ task_id }) => task_id);
    // Six questions; one in other words, one answered once more, one tried again.
    assert.equal(asked.length, 9);
    await day.desk.assertIsJournal();
    const shown = (chat) => chat.page.locator(".turn .answer").allTextContents();
    assert.deepEqual(await shown(day.phone), await shown(day.desk));
  } finally {
    await day.mobile?.close();
  }
});
