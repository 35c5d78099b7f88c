// focus.test.mjs -- the focus is never lost: whatever takes its element away, the next key has a sensible place.

import assert from "node:assert/strict";
import { scene } from "./support/scene.mjs";
import { states } from "./support/states.mjs";

const desk = { viewport: { width: 1280, height: 720 }, locale: "en-US" };

const focused = (page, selector) => page.waitForSelector(`${selector}:focus`);

/** A question that was answered, and its page. */
async function answered(its, options = {}) {
  const { chat, puppet } = await its.asked({ profile: await its.profile(desk), ...options });
  puppet.exit();
  await chat.waitForStatus("completed");
  return { chat, page: chat.page };
}

scene("a question that is edited gives the focus back, and is asked into the field", async (its) => {
  const { page } = await answered(its);
  const pencil = ".of-asked button[title='Edit and ask again']";
  for (const leave of [() => page.keyboard.press("Escape"), () => page.click(".editor button:text-is('Cancel')")]) {
    await page.click(pencil);
    await focused(page, ".editor textarea");
    await leave();
    await focused(page, pencil);
  }
  await page.focus("#message");
  await page.keyboard.press("ArrowUp");
  await focused(page, ".editor textarea");
  await page.keyboard.press("Escape");
  await focused(page, "#message");
  await page.keyboard.press("ArrowUp");
  await focused(page, ".editor textarea");
  await page.keyboard.press("Enter");
  await focused(page, "#message");
  (await its.stage.puppet()).exit();
});

scene("an editor goes with its conversation, and takes no focus when that is opened again", async (its) => {
  const { chat, page } = await answered(its);
  const pencil = ".of-asked button[title='Edit and ask again']";
  const goAndReturn = async () => {
    await page.click("#new");
    await page.waitForSelector("#empty:visible");
    await page.click("#conversations a");
    await page.waitForSelector(".of-asked, .editor");
    await page.evaluate(() => new Promise(requestAnimationFrame)); // its focus would have come by now
  };
  await page.click(pencil);
  await focused(page, ".editor textarea");
  await page.keyboard.press("Escape");
  await focused(page, pencil);
  await goAndReturn();
  assert.equal(await page.locator(`${pencil}:focus`).count(), 0);

  await page.click(pencil);
  await page.fill(".editor textarea", "Half of");
  await goAndReturn();
  assert.equal(await page.locator(".editor").count(), 0);
  assert.equal(await chat.textOf(".turn .asked"), "How deep is the sea?");
});

scene("what was typed into an editor stays with its question while another one is edited, and over a reload", async (its) => {
  const { chat, page } = await answered(its);
  await chat.ask("And how wide?");
  (await its.stage.puppet()).exit();
  await chat.waitForStatus("completed");
  const turn = (n) => page.locator(".turn").nth(n);
  const pencil = (n) => turn(n).locator(".of-asked button:has([data-name=pen])");
  const edit = async (n) => {
    await turn(n).hover();
    await pencil(n).click();
    await turn(n).locator(".editor textarea:focus").waitFor();
  };
  const typed = (n) => turn(n).locator(".editor textarea").inputValue();
  await pencil(1).waitFor();
  await edit(0);
  await page.keyboard.type(" Exactly?");
  await edit(1);
  assert.equal(await page.locator(".editor").count(), 1);
  assert.equal(await typed(1), "And how wide?");
  await page.keyboard.type(" Roughly.");
  await edit(0);
  assert.equal(await typed(0), "How deep is the sea? Exactly?");
  await page.reload();
  await pencil(1).waitFor();
  assert.equal(await pencil(1).getAttribute("aria-label"), "Go on editing");
  await edit(1);
  assert.equal(await typed(1), "And how wide? Roughly.");
  await page.keyboard.press("Escape"); // cancelled: it is wanted no more
  await edit(1);
  assert.equal(await typed(1), "And how wide?");
  await edit(0);
  await page.keyboard.press("Enter");
  const again = await its.stage.puppet();
  assert.equal(again.run.input, "How deep is the sea? Exactly?");
  again.exit();
  await chat.waitForStatus("completed");
  assert.deepEqual(await page.evaluate(() => Object.keys(sessionStorage).filter((name) => name.startsWith("holdfast.edit."))), []);
});

scene("an editor that is left and opened again within a frame has the focus", async (its) => {
  const { page } = await answered(its);
  await page.focus("#message");
  await page.keyboard.press("ArrowUp");
  await focused(page, ".editor textarea");
  await page.evaluate(async () => {
    const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    press("Escape");
    await null; // as between two keys
    press("ArrowUp");
  });
  await page.evaluate(() => new Promise(requestAnimationFrame));
  await focused(page, ".editor textarea");
});

scene("an agent that is chosen is asked, also within the same frame", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  await chat.page.fill("#message", "3 0");
  await chat.page.evaluate(() => {
    const agents = document.querySelector("#agent");
    agents.value = "slow";
    agents.dispatchEvent(new Event("change", { bubbles: true }));
    document.querySelector("#composer").requestSubmit();
  });
  await chat.waitForStatus("completed"); // a puppet would wait for the stage
});

scene("Enter twice within a frame asks an edited question once", async (its) => {
  const { chat, page } = await answered(its);
  await page.click(".of-asked button[title='Edit and ask again']");
  await page.fill(".editor textarea", "How wide is the sea?");
  await page.evaluate(() => {
    const field = document.querySelector(".editor textarea");
    for (let n = 0; n < 2; n++) field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  });
  await page.waitForSelector(".editor", { state: "detached" });
  await chat.ask("And then?"); // is sent behind both
  (await its.stage.puppet()).exit();
  const next = await its.stage.puppet();
  assert.equal(next.run.input, "And then?");
  next.exit();
});

scene("arrows between versions keep the focus, from the first to the last and back", async (its) => {
  const { chat, page } = await answered(its);
  for (let version = 2; version <= 3; version++) {
    await page.hover(".turn .answer");
    await page.click(".turn .again");
    await focused(page, "#message");
    const puppet = await its.stage.puppet();
    puppet.say(`Version ${version}`);
    puppet.exit();
    await chat.waitForText(`${version}/3`.replace(/3$/, String(version)), ".told .versions");
    await chat.waitForStatus("completed");
  }
  await page.focus(".told .versions .former");
  for (const [place, arrow] of [["2/3", "former"], ["1/3", "next"], ["2/3", "next"], ["3/3", "former"]]) {
    await page.keyboard.press("Enter");
    await chat.waitForText(place, ".told .versions");
    await focused(page, `.told .versions .${arrow}`);
  }

  await page.focus(".told .versions .former");
  await page.evaluate(() => {
    document.activeElement.click();
    document.querySelector("#message").focus(); // before the other version comes
  });
  await page.keyboard.type("Meanwhile");
  await chat.waitForText("2/3", ".told .versions");
  await page.evaluate(() => new Promise(requestAnimationFrame));
  await focused(page, "#message");
  assert.equal(await page.inputValue("#message"), "Meanwhile");
});

scene("answers to an agent's questions lead to the field", async (its) => {
  const { chat, puppet } = await its.asked({ profile: await its.profile(desk), said: [] });
  const { page } = chat;
  const kinds = [
    [{ kind: "question", options: ["Red"] }, (card) => page.focus(`${card} .choices button`)],
    [{ kind: "approval" }, (card) => page.focus(`${card} button`)],
    [{ kind: "question" }, (card) => page.fill(`${card} input`, "blue")],
  ];
  for (const [at, [question, reach]] of kinds.entries()) {
    puppet.emit("input_required", { input_id: `q${at}`, prompt: "Well?", ...question });
    const card = `[data-input-id=q${at}]`;
    await page.waitForSelector(`${card}.open`);
    await reach(card);
    await page.keyboard.press("Enter");
    await puppet.heard.take();
    await page.waitForSelector(`${card}:not(.open)`);
    await focused(page, "#message");
  }
  puppet.exit();
});

scene("on a touch screen what goes away opens no keyboard", async (its) => {
  const profile = await its.profile({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const { chat, puppet } = await its.asked({ profile, said: [] });
  puppet.emit("input_required", { input_id: "a", kind: "approval", prompt: "May I?" });
  await chat.page.tap("[data-input-id=a] button:text-is('Approve')");
  await puppet.heard.take();
  await focused(chat.page, "#thread");
  puppet.exit();
});

scene("rows that move in the list, or leave it, keep the focus or give it to the field", async (its) => {
  const chat = await states.list(its, desk);
  const { page } = chat;
  await page.keyboard.press("Escape");
  const second = "#conversations li[data-conversation-id] >> nth=1";
  const id = await page.locator(second).getAttribute("data-conversation-id");
  const row = `#conversations li[data-conversation-id='${id}']`;
  const does = async (entry) => {
    await page.hover(row);
    await page.click(`${row} .more`);
    await page.click(`#conversation-menu button:has-text('${entry}')`);
  };
  await does("Pin");
  await page.waitForSelector("#conversations .day:text-is('Pinned')");
  await focused(page, `${row} .more`);
  await does("Unpin");
  await page.waitForSelector("#conversations .day:text-is('Pinned')", { state: "detached" });
  await focused(page, `${row} .more`);
  await does("Archive");
  await page.waitForSelector(row, { state: "detached" });
  await focused(page, "#message");
});

scene("what closes or is taken out of a dialog leaves the focus beside it", async (its) => {
  const chat = await states.tray(its, desk);
  const { page } = chat;
  await page.click("#tray header button:has-text('Seen')");
  await focused(page, "#tray header button[aria-label='Close the tray']");
  await page.keyboard.press("Enter");
  await focused(page, "#tray-button");

  await page.click("#later");
  await page.fill("#schedules-dialog textarea", "Remind me");
  await page.click("#schedules-dialog form button[type=submit]");
  await page.waitForSelector("[data-schedule-id]");
  await page.focus("[data-schedule-id] button[title=Delete]");
  await page.keyboard.press("Enter");
  await page.waitForSelector("[data-schedule-id]", { state: "detached" });
  assert.ok(await page.evaluate(() => document.querySelector("#schedules-dialog").contains(document.activeElement)));
  await page.keyboard.press("Escape");
  await focused(page, "#message");
});

scene("j and k go on from what had the focus among the messages", async (its) => {
  const { chat, page } = await answered(its, { text: "The first" });
  await page.click("#new");
  await chat.ask("The second");
  (await its.stage.puppet()).exit();
  await chat.waitForText("The second", "#title");
  await chat.waitForStatus("completed");
  await page.focus(".of-asked .copy");
  await page.keyboard.press("j");
  await chat.waitForText("The first", "#title");
  await focused(page, "#thread");
  await page.keyboard.press("k");
  await chat.waitForText("The second", "#title");
  assert.equal(await page.inputValue("#message"), "");
});
