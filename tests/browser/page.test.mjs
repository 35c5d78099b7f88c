// page.test.mjs -- what the page is beyond a place to ask: Markdown, tray, care for who uses it.

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { detail, scene } from "./support/scene.mjs";
import { axeSource, states } from "./support/states.mjs";

scene("Markdown is shown as it is meant, and what stands there stays as it is", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["# Title\n\nSome **bold", "** text.\n\n"], shown: "TitleSome bold text." });
  await chat.page.evaluate(() => {
    for (const each of document.querySelectorAll(".piece > *")) each.wasThere = true;
  });
  puppet.say("- one\n- two\n\n```python\nprint(", '"hi")\n```\n\n| a | b |\n| - | - |\n| 1 | 2 |\n');
  await chat.waitForText("2", ".answer td:last-child");
  const shown = (selector) => chat.allTexts(`.turn .answer ${selector}`);
  assert.deepEqual(await shown("h1"), ["Title"]);
  assert.deepEqual(await shown("strong"), ["bold"]);
  assert.deepEqual(await shown("li"), ["one", "two"]);
  assert.deepEqual(await shown(".hljs-string"), ['"hi"']);
  const kept = await chat.page.locator(".piece > *").evaluateAll((all) => all.map((each) => each.wasThere ?? false));
  assert.deepEqual(kept, [true, true, false, false, false]);
  await chat.page.click(".answer .code .copy");
  assert.equal(await chat.page.evaluate(() => window.copied), 'print("hi")\n');
  puppet.exit();
  await chat.waitForStatus("completed");
});

detail("formulae are drawn with fonts of our own, fetched when the first one comes", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["It costs $5.\n\n"], shown: "It costs $5." });
  const fetched = () =>
    chat.page.evaluate(() => performance.getEntriesByType("resource").map(({ name }) => name).filter((name) => /katex/i.test(name)));
  assert.deepEqual(await fetched(), []);
  await chat.page.evaluate(() => {
    window.refused = [];
    addEventListener("securitypolicyviolation", ({ violatedDirective }) => window.refused.push(violatedDirective));
  });
  puppet.say("Let $a^2$ and \\(b\\):\n\n\\[\n\\frac{a", "}{b}\n\\]\n\nand $\\nothing{$.\n");
  await chat.page.waitForSelector(".formula[data-display] .katex-display .mfrac");
  assert.equal(await chat.page.locator(".answer .katex").count(), 3);
  assert.deepEqual(await chat.allTexts(".answer .formula > code"), ["\\nothing{"]);
  assert.deepEqual(await chat.page.locator(".answer .katex annotation").allTextContents(), ["a^2", "b", "\\frac{a}{b}"]);
  await chat.page.evaluate(() => document.fonts.ready);
  assert.ok((await fetched()).some((name) => name.endsWith(".woff2")));
  assert.equal(await chat.page.evaluate(() => document.fonts.check("16px KaTeX_Math")), true);
  assert.deepEqual(await chat.page.evaluate(() => window.refused), []);
  puppet.exit();
  await chat.waitForStatus("completed");
});

detail("a footnote is reached and left without leaving the conversation", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["One[^1].\n\n[^1]: The note.\n"], shown: "" });
  await chat.page.waitForSelector(".answer .footnotes");
  const address = chat.page.url();
  await chat.page.click(".answer sup a");
  const focused = () => chat.page.evaluate(() => document.activeElement.closest("sup, li")?.tagName);
  assert.equal(await focused(), "LI");
  await chat.page.click(".answer .footnotes a");
  assert.equal(await focused(), "SUP");
  assert.equal(chat.page.url(), address);
  puppet.exit();
  await chat.waitForStatus("completed");
});

detail("the last words of a long paragraph are there, however close they came to those before", async (its) => {
  const long = "word ".repeat(1_500).trim(); // it is read again only so often
  const { chat, puppet } = await its.asked({ said: [long] });
  let text = long;
  for (let round = 0; round < 20; round++) {
    const end = chat.page.waitForFunction((end) => document.querySelector(".answer").textContent.endsWith(end), ` a${round}`);
    puppet.say(` a${round}`);
    await end;
    puppet.say(` b${round}`);
    text += ` a${round} b${round}`;
    await chat.waitForText(text);
  }
  puppet.exit();
  await chat.waitForStatus("completed");
});

detail("what is written from the right runs from the right, and code from the left", async (its) => {
  const said = "שלום world!\n\n- שלום `a`\n\n> שלום\n\n| שלום |\n| - |\n| 1 |\n\nHello שלום.\n\n```\nשלום\n```\n";
  const { chat, puppet } = await its.asked({ text: "שלום?", said: [said], shown: "" });
  await chat.page.waitForSelector(".answer .code");
  const runs = await chat.page.locator(".piece > *").evaluateAll((all) => all.map((each) => getComputedStyle(each).direction));
  assert.deepEqual(runs, ["rtl", "rtl", "rtl", "rtl", "ltr", "ltr"]);
  const edges = await chat.page.locator(".answer :is(p, li, td, pre), .asked").evaluateAll((all) =>
    all.map((each) => {
      const range = document.createRange();
      range.selectNodeContents(each);
      const [box, text] = [each.getBoundingClientRect(), range.getBoundingClientRect()];
      return Math.abs(box.right - text.right) < Math.abs(text.left - box.left) + 1 ? "right" : "left";
    }),
  );
  assert.deepEqual(edges, ["right", "right", "right", "right", "right", "left", "left"]);
  assert.equal(await chat.page.locator(".answer li code").evaluate((code) => getComputedStyle(code).direction), "ltr");
  puppet.exit();
  await chat.waitForStatus("completed");
});

scene("what is to be approved shows the signs that would turn it around", async (its) => {
  const { chat, puppet } = await its.asked({ said: [] });
  const command = "echo \u202e; rm -rf /\u2066";
  const prompt = `Run this command?\n${command}`;
  puppet.emit("input_required", { input_id: "q1", kind: "approval", prompt, tool: "terminal", arguments: { command } });
  await chat.page.waitForSelector("[data-input-id=q1]");
  const shown = await chat.textOf("[data-input-id=q1]");
  assert.doesNotMatch(shown, /\p{Bidi_Control}/u);
  assert.equal(shown.split("echo \\u202e; rm -rf /\\u2066").length, 2, "it stands there once");
});

detail("who asks while reading further up is brought to the end", async (its) => {
  const { chat, puppet } = await its.asked({ said: ["Line.\n\n".repeat(60)], shown: "Line.".repeat(60) });
  puppet.exit();
  await chat.waitForStatus("completed");
  const { page } = chat;
  await page.hover("#thread");
  await page.mouse.wheel(0, -800);
  await page.waitForSelector(".to-end");
  await chat.ask("And then?");
  const second = await its.stage.puppet();
  await page.waitForFunction(() => {
    const { top, bottom } = [...document.querySelectorAll(".asked")].at(-1).getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  });
  assert.equal(await page.locator(".to-end").count(), 0);
  second.exit();
});

scene("an answer of hostile Markdown does nothing", async (its) => {
  const hostile = [
    "<script>window.hacked = 1</script>\n",
    '<img src="/v1/x" onerror="window.hacked = 2"> <svg onload="window.hacked = 3"></svg>\n',
    "[a](javascript:window.hacked=4) [b](JaVaScRiPt:window.hacked=5) [c](data:text/html,<script>alert(1)</script>)\n",
    "[d](vbscript:x) <javascript:window.hacked=6> [e]: javascript:window.hacked=7\n\n[e]\n",
    '![f](https://tracker.example/pixel.png) ![g](javascript:window.hacked=8 "h")\n',
    '<iframe srcdoc="<script>parent.hacked = 9</script>"></iframe><style>body { display: none }</style>\n',
    '<a href="#" onclick="window.hacked=10">i</a> <form action="/"><button formaction="/">j</button></form>\n',
    '```html"onmouseover="window.hacked=11\n<b>\n```\n',
    "[k](https://example.org/ok 'l')\n",
  ];
  const { chat, puppet } = await its.asked({ said: ["Look:\n\n"], shown: "Look:" });
  const wanted = [];
  chat.page.on("request", (request) => wanted.push(request.url()));
  puppet.say(...hostile.map((text) => `${text}\n`));
  await chat.page.waitForSelector(".answer a[href='https://example.org/ok']");
  const links = chat.page.locator(".answer a");
  const addresses = await links.evaluateAll((all) => all.map((link) => link.getAttribute("href") ?? ""));
  for (const address of addresses) assert.match(address, /^$|^https:/);
  for (const rel of await links.evaluateAll((all) => all.map((link) => link.rel))) {
    assert.equal(rel, "noopener noreferrer nofollow");
  }
  const bad = ".answer :is(script, img, svg:not(.icon), iframe, style, form, object, embed, [onclick], [onerror])";
  assert.equal(await chat.page.locator(bad).count(), 0);
  for (const link of await links.filter({ hasText: /^[a-eg]$/ }).all()) await link.click({ noWaitAfter: true });
  await chat.page.hover(".answer .code pre");
  assert.equal(await chat.page.evaluate(() => window.hacked), undefined);
  assert.deepEqual(wanted, []);
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.assertIsJournal();
});

scene("a background task goes into the tray, and tells when it has ended", async (its) => {
  const prepare = (page) => page.addInitScript(catchNotifications);
  const chat = await its.chat({ prepare });
  await chat.waitForState("live");
  await chat.page.click("#background");
  await chat.ask("Count the sand");
  const puppet = await its.stage.puppet();
  puppet.emit("progress", { progress: 0.5 });
  await chat.page.waitForFunction(() => document.querySelector("#tray progress")?.value === 0.5);
  assert.equal(await chat.page.locator(".turn").count(), 0);
  assert.equal(await chat.page.getAttribute("#tray-button", "aria-label"), "Background tasks: 1 running, 0 new");
  puppet.say("A *lot*");
  puppet.exit();
  await chat.page.waitForSelector("#tray li[data-fresh] [data-status=completed]");
  const told = await chat.page.evaluate(() => window.notified);
  assert.deepEqual(told, [{ title: "“Count the sand” is done", body: "A *lot*" }]);

  await chat.page.reload();
  await chat.page.click("#tray-button");
  await chat.page.waitForSelector("#tray li[data-fresh]");
  await chat.page.click("#tray .task summary");
  await chat.waitForText("A lot", "#tray .answer");
  await chat.page.click("#tray header button:has-text('Seen')");
  await chat.page.waitForSelector("#tray li:not([data-fresh])");
  await chat.page.reload();
  await chat.page.waitForSelector("#tray-button[aria-label='Background tasks: 0 running, 0 new']");
});

/** In the page: notifications are allowed, wanted, and can be read. */
function catchNotifications() {
  window.notified = [];
  document.hasFocus = () => false;
  window.Notification = class {
    static permission = "granted";
    constructor(title, { body }) {
      window.notified.push({ title, body });
    }
  };
}

detail("all of it is stopped at once, and what failed is tried again", async (its) => {
  const { chat, puppet } = await its.asked();
  puppet.tell({ call: "spawn", call_id: "c1", agent: "puppet", input: "help", name: "friend" });
  await its.stage.puppet();
  await chat.page.click("#stop-all");
  await chat.page.waitForSelector(".turn[data-status=cancelled]");
  await chat.page.waitForSelector(".tree .task[data-status=cancelled]");
  await chat.page.waitForSelector("#stop-all", { state: "detached" });

  await chat.page.click(".turn .retry");
  const again = await its.stage.puppet();
  assert.equal(again.run.input, "How deep is the sea?");
  again.say("Very.");
  again.exit();
  await chat.waitForText("Very.", ".turn:nth-of-type(1) .answer");
  await chat.page.waitForSelector(".turn:nth-of-type(1)[data-status=completed]");
  await chat.page.waitForSelector(".turn:nth-of-type(2)", { state: "detached" });
  await chat.assertIsJournal();
});

scene("a message that is too long is refused at the field, and stays in it", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  await chat.ask("x".repeat(60_000));
  await chat.page.click(".asked .whole");
  await chat.waitForText(`${"x".repeat(60_000)}Show less`, ".turn .asked");
  await its.stage.puppet().then((puppet) => puppet.exit());
  await chat.waitForStatus("completed");
  await chat.page.fill("#message", "y".repeat(64_000));
  await chat.waitForText("64,002 of 65,024 bytes", "#room");
  await chat.page.fill("#message", "y".repeat(70_000));
  await chat.waitForText("Too long by 4,978 bytes. Shorten it, or send it in parts.", "#room");
  await chat.page.press("#message", "Enter");
  assert.equal(await chat.page.isDisabled("#send"), true);
  assert.equal((await chat.page.inputValue("#message")).length, 70_000);
  assert.equal((await chat.allTexts(".turn .asked")).length, 1);
});

/** A message that was kept before the page knew the limit: it is refused when it is sent. */
async function refused(its, options) {
  const chat = await its.chat(options);
  await chat.waitForState("live");
  await its.network.cut();
  await chat.waitForState("waiting", "offline");
  const { limits } = its.gateway.config;
  await its.gateway.stop();
  its.gateway.config.limits = { ...limits, message_bytes: 33_000 };
  await chat.ask("x".repeat(40_000));
  await its.gateway.start();
  await its.network.restore();
  await chat.page.evaluate(() => dispatchEvent(new Event("online")));
  await chat.page.waitForSelector(".turn .unsent");
  return chat;
}

detail("what was not sent because it is too long goes back into the field, and is not tried again", async (its) => {
  const chat = await refused(its);
  assert.equal(await chat.textOf(".turn .unsent .marks"), "Not sent. This is too long to be sent.");
  assert.deepEqual(await chat.allTexts(".turn .unsent button"), [" Edit", "Discard"]);
  await chat.ask("Something shorter");
  const puppet = await its.stage.puppet();
  puppet.exit();
  await chat.waitForStatus("completed");
  const asked = await chat.allTexts(".turn .asked");
  assert.deepEqual(asked.map((text) => text[0]), ["x", "S"], "in the order in which they were asked");
  await chat.page.click(".turn .unsent button:has-text('Edit')");
  await chat.page.waitForSelector(".unsent", { state: "detached" });
  assert.equal((await chat.page.inputValue("#message")).length, 40_000);
});

scene("a conversation is renamed and deleted, and a draft outlives a reload", async (its) => {
  const { chat, puppet } = await its.asked();
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.page.click("#more");
  await chat.page.click("#conversation-menu button:has-text('Rename')");
  await chat.page.fill("dialog[open] input", "The deep");
  await chat.page.press("dialog[open] input", "Enter");
  await chat.waitForText("The deep", "#title");
  await chat.waitForText("The deep", "#conversations .title");

  await chat.page.fill("#message", "half a sentence");
  await chat.page.reload();
  await chat.waitForText("The deep", "#title");
  assert.equal(await chat.page.inputValue("#message"), "half a sentence");

  await chat.page.click("#more");
  await chat.page.click("#conversation-menu button:has-text('Delete')");
  await chat.page.click("dialog[open] button.danger");
  await chat.page.waitForSelector("#empty");
  assert.deepEqual(await chat.allTexts("#conversations .title"), []);
});

detail("the keyboard reaches everything, and what matters is said", async (its) => {
  const { chat, puppet } = await its.asked();
  const { page } = chat;
  await page.focus("#thread");
  await page.keyboard.press("?");
  await page.waitForSelector("#shortcuts[open]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#shortcuts:not([open])", { state: "attached" });
  await page.focus("#thread");
  await page.keyboard.press("b");
  await page.waitForSelector("#tray");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#tray", { state: "detached" });
  await page.keyboard.press("/");
  await page.waitForSelector("#message:focus");
  await page.keyboard.press("Control+K"); // also while one writes, and where the list is out of view
  await page.waitForSelector("#search:focus");
  await page.setViewportSize({ width: 390, height: 780 });
  await page.click("#menu");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#side", { state: "hidden" });
  await page.keyboard.press("Control+K");
  await page.waitForSelector("#search:focus");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#message:focus");
  puppet.emit("input_required", { input_id: "q", kind: "question", prompt: "Which sea?" });
  await chat.waitForText("How deep is the sea? asks: Which sea?", "#news");
  puppet.exit();
  await chat.waitForText("The answer to How deep is the sea? is there", "#news");
});

detail("a long question is folded, shown whole on demand, and copied and edited whole", async (its) => {
  const log = Array.from({ length: 300 }, (_, n) => `line ${n}`).join("\n");
  const { chat, puppet } = await its.asked({ text: log });
  const { page } = chat;
  puppet.exit();
  await chat.waitForStatus("completed");
  const words = () => page.locator(".turn .asked").innerText();
  assert.match(await words(), /line 13 …\n+Show all$/);
  await page.click(".asked .whole");
  assert.match(await words(), /line 299\n*Show less$/);
  await page.click(".asked .whole");
  assert.match(await words(), /line 13 …\n+Show all$/);
  await page.hover(".turn .asked");
  await page.click(".of-asked .copy");
  assert.equal(await page.evaluate(() => window.copied), log);
  await page.click(".of-asked button:has([data-name=pen])");
  assert.equal(await page.inputValue(".editor textarea"), log);
});

detail("an answer without a word says that it is none", async (its) => {
  const { chat, puppet } = await its.asked({ said: [] });
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.waitForText("It ended without an answer", ".turn .marks");
});

detail("the look follows the system until one is chosen, and then that", async (its) => {
  const profile = await its.profile({ colorScheme: "dark" });
  const chat = await its.chat({ profile });
  const ground = () => chat.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await chat.waitForState("live");
  assert.equal(await ground(), "rgb(19, 24, 25)");
  await chat.page.click(".look");
  assert.equal(await ground(), "rgb(255, 255, 255)");
  await chat.page.reload();
  await chat.waitForState("live");
  assert.equal(await ground(), "rgb(255, 255, 255)");
});

detail("the messages scroll, and the page around them stays", async (its) => {
  const { page } = await states.answer(its, { viewport: { width: 1280, height: 720 } });
  const moved = await page.evaluate(() => {
    const whole = document.querySelector("#page");
    whole.scrollTop = 1_000; // what the focus, or a search in the page, would do
    return [whole.scrollTop, scrollY, document.querySelector("#thread").scrollTop > 0];
  });
  assert.deepEqual(moved, [0, 0, true]);
});

detail("name, mark and colour of the page are the operator's, light and dark, under the same policy", async (its) => {
  const mark = join(its.gateway.folder, "mark.svg");
  await writeFile(mark, '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="4" fill="#7a1f5c"/></svg>');
  await its.reconfigure({ page: { name: "Reef", accent: "#7a1f5c", mark } });
  const profile = await its.profile({ ...looks, bypassCSP: false });
  const chat = await its.chat({ profile });
  await chat.waitForState("live");
  const { page } = chat;
  await page.waitForFunction(() => [...document.querySelectorAll("img.own-mark")].filter((mark) => mark.naturalWidth > 0).length === 2);
  assert.equal(await page.title(), "Reef");
  assert.match(await page.getAttribute("link[rel=icon]", "href"), /\/mark$/);
  await page.fill("#message", "How deep?");
  await page.waitForSelector("#send:enabled");
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector("#send")).backgroundColor), "rgb(122, 31, 92)");
  const inspector = await its.chat({ file: "inspector.html", profile });
  await inspector.page.waitForFunction(() => document.title === "Stream inspector – Reef");
  await inspector.page.waitForFunction(() => document.querySelector("img.own-mark")?.naturalWidth > 0);
  const dressed = await its.chat({ profile: await its.profile(looks) });
  await dressed.ask("How deep is the sea?");
  const puppet = await its.stage.puppet();
  puppet.say("See [there](https://example.org).");
  puppet.emit("input_required", { input_id: "q", kind: "approval", prompt: "Dive?" });
  await dressed.page.waitForSelector("[data-input-id=q]");
  await assertAccessible(dressed);
  puppet.exit();
});

const phone = { width: 360, height: 640 };
const desk = { width: 1280, height: 720 };
const looks = { colorScheme: "light", bypassCSP: true, reducedMotion: "reduce", viewport: desk };

/** On a desk and on a phone, light and dark; in a short run each once. */
const few = process.env.HOLDFAST_LOOKS === "few";
const schemesOf = ({ width }) => (!few ? ["light", "dark"] : width === desk.width ? ["light"] : ["dark"]);

/** Fails on what axe finds in a page as it stands, in these sizes; it must fit into them and into the others. */
async function assertAccessible({ page }, sizes = [desk, phone], others = []) {
  await page.evaluate(await axeSource());
  for (const viewport of [...others, ...sizes]) {
    await page.setViewportSize(viewport);
    for (const colorScheme of others.includes(viewport) ? [] : schemesOf(viewport)) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await faultsOf(page), [], `${viewport.width} px, ${colorScheme}`);
    }
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "it fits");
  }
}

const held = { answer: "reconnecting", failed: "tray" }; // states that others hold, too
const fullest = ["question", "list", "tray"];
const examined = Object.entries(states).filter(([name]) => (few ? fullest.includes(name) : !held[name]));
for (const [at, [name, bring]] of examined.entries()) {
  const turns = at % 2 ? [[phone], [desk]] : [[desk], [phone]]; // in a short run
  scene(`axe finds no fault: ${name}`, async (its) => {
    await assertAccessible(await bring.call(states, its, looks), ...(few ? turns : []));
  });
}

detail("axe finds no fault: what opens", async (its) => {
  const chat = await refused(its, { profile: await its.profile(looks) });
  const { page } = chat;
  await assertAccessible(chat, [phone]);
  await page.click("#menu");
  await page.waitForSelector("#new:visible");
  await assertAccessible(chat, [phone]);
  await page.keyboard.press("Escape");
  await page.click(".turn button:has-text('Discard')");
  await page.keyboard.press("Escape");
  await chat.ask("How deep is the sea?");
  (await its.stage.puppet()).exit();
  await chat.waitForStatus("completed");
  await page.setViewportSize(desk);
  for (const entry of ["Rename", "Delete"]) {
    await page.click("#more");
    await page.click(`#conversation-menu button:has-text('${entry}')`);
    await assertAccessible(chat, [desk]);
    await page.keyboard.press("Escape");
  }
  await page.focus("#thread");
  await page.keyboard.press("?");
  await page.waitForSelector("#shortcuts[open]");
  await assertAccessible(chat, [desk]);
});

/** The findings of axe, in words. */
const faultsOf = (page) =>
  page.evaluate(async () => {
    const { violations } = await window.axe.run({ resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id}: ${target} ${failureSummary}`),
    );
  });

detail("a page that may store nothing works all the same", async (its) => {
  const prepare = (page) =>
    page.addInitScript(() => {
      const denied = { get: () => { throw new DOMException("denied", "SecurityError"); } };
      for (const name of ["localStorage", "sessionStorage", "indexedDB"]) Object.defineProperty(window, name, denied);
    });
  const chat = await its.chat({ prepare });
  await chat.waitForState("live");
  await chat.page.click(".look");
  await chat.ask("hello");
  const puppet = await its.stage.puppet();
  puppet.say("hello");
  puppet.exit();
  await chat.waitForStatus("completed");
});
