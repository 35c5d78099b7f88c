// schedules.test.mjs -- messages that are sent later, from the page.

import assert from "node:assert/strict";
import { scene } from "./support/scene.mjs";

const row = "#schedules-dialog [data-schedule-id]";

scene("a message is sent later, in its conversation, and then stands in the list no more", async (its) => {
  const { chat, puppet } = await its.asked();
  const { page } = chat;
  puppet.exit();
  await chat.waitForStatus("completed");
  await page.fill("#message", "And how wide?");
  await page.click("#later");
  assert.equal(await page.inputValue("#schedules-dialog textarea"), "And how wide?");
  const button = "#schedules-dialog form button[type=submit]";
  await page.fill("#schedules-dialog input[type=datetime-local]", "2020-01-01T08:00");
  await page.waitForSelector(`${button}:disabled`);
  await page.fill("#schedules-dialog input[type=datetime-local]", `${new Date().getFullYear() + 1}-01-01T08:00`);
  await page.click(button);
  await page.waitForSelector(`${row}:has-text('And how wide?')`);
  const { token } = await chat.guest(); // from elsewhere, it is brought forward
  const id = await page.getAttribute(row, "data-schedule-id");
  const reply = await fetch(`http://127.0.0.1:${its.gateway.port}/v1/schedules`, {
    method: "PATCH",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body: JSON.stringify({ schedule_id: id, not_before: Date.now() + 1_000 }),
  });
  assert.equal(reply.status, 200);
  const later = await its.stage.puppet();
  assert.equal(later.run.input, "And how wide?");
  later.say("Wide.");
  later.exit();
  await chat.waitForText("Nothing is scheduled.", "#schedules-dialog > .hint");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#message:focus");
  assert.equal(await page.inputValue("#message"), "", "it was taken from the field");
  await chat.waitForText("Wide.", ".turn:nth-of-type(2) .answer");
});

scene("what comes again and again is said in words, paused, resumed and deleted", async (its) => {
  const profile = await its.profile({ timezoneId: "Europe/Berlin", locale: "en-US" });
  const chat = await its.chat({ profile });
  const { page } = chat;
  await chat.waitForState("live");
  await page.click("#later");
  await page.fill("#schedules-dialog textarea", "What is new?");
  await page.selectOption("select[aria-label='How often']", "week");
  await page.selectOption("select[aria-label='Day of the week']", "Wednesday");
  await page.fill("input[aria-label=Time]", "09:05");
  await page.click("#schedules-dialog form button[type=submit]");
  const words = () => chat.textOf(`${row} .hint`);
  await page.waitForSelector(row);
  assert.match(await words(), /^every Wednesday at 9:05\sAM · next .* 9:05\sAM$/);
  await page.click(`${row} button[title=Pause]`);
  await page.waitForSelector(`${row}[data-paused]`);
  assert.match(await words(), /^every Wednesday at 9:05\sAM · paused$/);
  await page.click(`${row} button[title=Resume]`);
  await page.waitForSelector(`${row}:not([data-paused])`);

  await page.selectOption("select[aria-label='How often']", "cron");
  await page.fill("#schedules-dialog textarea", "Never");
  await page.fill("#schedules-dialog input[type=text]", "61 * * * *");
  await page.click("#schedules-dialog form button[type=submit]");
  await page.waitForSelector("#schedules-dialog .outcome.trouble");
  assert.match(await chat.textOf("#schedules-dialog .outcome.trouble"), /cron/);
  assert.equal(await page.locator(row).count(), 1);
  await page.click(`${row} button[title=Delete]`);
  await page.waitForSelector(row, { state: "detached" });
});
