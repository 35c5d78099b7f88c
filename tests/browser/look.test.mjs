// look.test.mjs -- what the comparison with other chat pages has brought (web/README.md, "The look"): type, edges, motion.

import assert from "node:assert/strict";
import { scene } from "./support/scene.mjs";

const desk = { viewport: { width: 1280, height: 720 } };
const LONG = Array.from({ length: 80 }, (_, n) => `let line_${n} = ${n};`).join("\n");

/** An ended answer of this text. */
async function answered(its, text, options = desk) {
  const profile = await its.profile(options);
  const { chat, puppet } = await its.asked({ profile, said: [text], shown: "" });
  puppet.exit();
  await chat.waitForStatus("completed");
  return chat;
}

/** The contrast of two colours as CSS has them, by WCAG 2.2's definition. */
function contrast(one, other) {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map((each) => {
      const part = Number(each) / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

scene("a long block of code keeps its name and its button in view", async (its) => {
  const { page } = await answered(its, `Read this:\n\n\`\`\`rust\n${LONG}\n\`\`\`\n`);
  await page.waitForSelector(".answer .code");
  const seen = await page.evaluate(() => {
    const thread = document.querySelector("#thread");
    const block = document.querySelector(".code");
    thread.scrollTop += block.getBoundingClientRect().top + 600 - thread.getBoundingClientRect().top;
    const { top, height } = document.querySelector(".code-bar").getBoundingClientRect();
    const button = document.querySelector(".code .copy").getBoundingClientRect();
    const there = document.elementFromPoint(button.x + button.width / 2, button.y + button.height / 2);
    return {
      under: Math.round(top - thread.getBoundingClientRect().top),
      height,
      above: block.getBoundingClientRect().top < thread.getBoundingClientRect().top - 300,
      hit: there?.closest("button")?.className ?? "",
    };
  });
  assert.ok(seen.above, "the block's beginning is out of view");
  assert.ok(seen.under >= 0 && seen.under < 12, `the bar stands ${seen.under} px below the edge`);
  assert.match(seen.hit, /\bcopy\b/);
});

scene("text fades at the bar and at the field, on light and on dark ground", async (its) => {
  for (const colorScheme of ["light", "dark"]) {
    const { page } = await answered(its, Array(60).fill("\u2588".repeat(20)).join("\n"), { ...desk, colorScheme });
    await page.evaluate(() => {
      const thread = document.querySelector("#thread");
      thread.scrollTop = (thread.scrollHeight - thread.clientHeight) / 2;
    });
    const box = await page.locator(".answer").boundingBox();
    const frame = await page.locator(".thread-frame").boundingBox();
    const clip = { x: box.x + 8, y: frame.y, width: 60, height: frame.height };
    const png = await page.screenshot({ clip, animations: "disabled" });
    // How much of each row's darkest point is ink: 0 is the ground, 1 the text in the middle.
    const ink = await page.evaluate(async (data) => {
      const picture = await createImageBitmap(new Blob([Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0))]));
      const brush = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
      brush.drawImage(picture, 0, 0);
      const ground = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
      const rows = Array.from({ length: picture.height }, (_, y) => {
        const { data } = brush.getImageData(0, y, picture.width, 1);
        let far = 0;
        for (let at = 0; at < data.length; at += 4) far = Math.max(far, Math.abs(data[at] - ground[0]));
        return far;
      });
      const most = Math.max(...rows);
      return rows.map((far) => far / most);
    }, png.toString("base64"));
    const around = (from, to) => Math.max(...ink.slice(from, to));
    assert.ok(around(0, 2) < 0.4, `${colorScheme}: ${around(0, 2)} of the ink at the upper edge`);
    assert.ok(around(-2) < 0.15, `${colorScheme}: ${around(-2)} of the ink at the lower edge`);
    assert.ok(around(12, 40) > 0.95, `${colorScheme}: the text is whole below the fade`);
    assert.ok(around(-70, -36) > 0.95, `${colorScheme}: the text is whole above the fade`);
  }
});

scene("the field's focus is quiet and can be seen, light and dark", async (its) => {
  for (const colorScheme of ["light", "dark"]) {
    const profile = await its.profile({ ...desk, colorScheme, reducedMotion: "reduce" });
    const chat = await its.chat({ profile });
    await chat.waitForState("live");
    const colours = () =>
      chat.page.evaluate(() => [getComputedStyle(document.querySelector("#composer")).borderTopColor, getComputedStyle(document.body).backgroundColor]);
    await chat.page.focus("#message");
    const [focused, ground] = await colours();
    await chat.page.focus("#thread");
    const [other] = await colours();
    assert.ok(contrast(focused, ground) >= 3, `${colorScheme}: ${contrast(focused, ground)} to 1`); // WCAG 2.2, 1.4.11
    assert.ok(contrast(focused, ground) > contrast(other, ground) + 1, colorScheme);
  }
});

scene("the keys are told when there is something to send", async (its) => {
  const chat = await its.chat({ profile: await its.profile(desk) });
  await chat.waitForState("live");
  const hint = chat.page.locator(".composer-bar .hint");
  assert.equal(await hint.isVisible(), false);
  await chat.page.fill("#message", "How");
  assert.equal(await hint.isVisible(), true);
});

scene("a conversation's name has its whole row; its time is read out, and in the tip", async (its) => {
  const chat = await its.chat({ profile: await its.profile(desk) });
  await chat.ask("Summarise the log of this morning");
  const puppet = await its.stage.puppet();
  puppet.exit();
  await chat.waitForStatus("completed");
  const row = "#conversations li[data-conversation-id]";
  await chat.page.waitForSelector(`${row} time`, { state: "attached" });
  const told = await chat.page.locator(row).evaluate((row) => {
    const [title, time] = [row.querySelector(".title"), row.querySelector("time")];
    return {
      share: title.clientWidth / row.clientWidth,
      tip: title.title,
      time: time.textContent,
      wide: time.getBoundingClientRect().width,
    };
  });
  assert.ok(told.share > 0.85, `the name has ${told.share} of the row`);
  assert.equal(told.tip, "Summarise the log of this morning\nnow");
  assert.equal(told.time, "now");
  assert.ok(told.wide <= 1);
  await chat.page.hover(row);
  const ends = await chat.page.locator(row).evaluate((row) => {
    const [title, more] = [row.querySelector(".title"), row.querySelector(".more")].map((each) => each.getBoundingClientRect());
    return [title.right, more.left];
  });
  assert.ok(ends[0] <= ends[1], `the name ends at ${ends[0]}, its button begins at ${ends[1]}`);
});

scene("a new question rises once and shortly, and not for those who want no motion", async (its) => {
  for (const reducedMotion of ["no-preference", "reduce"]) {
    const chat = await its.chat({
      profile: await its.profile({ ...desk, reducedMotion }),
      prepare: (page) =>
        page.addInitScript(() => {
          window.moved = [];
          addEventListener("animationstart", ({ target, animationName }) => {
            const ms = 1_000 * parseFloat(getComputedStyle(target).animationDuration);
            window.moved.push({ of: target.className, name: animationName, ms });
          });
        }),
    });
    await chat.ask("How deep?");
    const puppet = await its.stage.puppet();
    puppet.say("Very.");
    puppet.exit();
    await chat.waitForStatus("completed");
    const risen = await chat.page.evaluate(() => window.moved.filter(({ of }) => of === "asked"));
    if (reducedMotion === "reduce") {
      assert.deepEqual(await chat.page.evaluate(() => window.moved), []);
      continue;
    }
    assert.ok(risen.length >= 1 && risen.every(({ name }) => name === "rise"), JSON.stringify(risen));
    assert.ok(risen.every(({ ms }) => ms > 0 && ms <= 300), JSON.stringify(risen)); // longer, and it delays who reads
  }
});

scene("headings, text and code keep their proportions, and lines can be read", async (its) => {
  const words = "The tide turns at noon, and the boats come in with it. ".repeat(8);
  const { page } = await answered(its, `# One\n\n## Two\n\n### Three\n\n${words}\n\n\`\`\`js\n1;\n\`\`\`\n`);
  await page.waitForSelector(".answer .code pre");
  const size = Object.fromEntries(
    await page.evaluate(() => ["h1", "h2", "h3", "p", ".code pre"].map((each) => [each, parseFloat(getComputedStyle(document.querySelector(`.answer ${each}`)).fontSize)])),
  );
  assert.ok(size.h1 > size.h2 && size.h2 > size.h3 && size.h3 > size.p, JSON.stringify(size));
  assert.ok(size.h2 / size.p >= 1.3, JSON.stringify(size)); // Open WebUI and LibreChat: 1.5
  assert.ok(size[".code pre"] >= 14, JSON.stringify(size)); // Open WebUI 14, LibreChat 14.4
  const { leading, perLine, above, below } = await page.evaluate(() => {
    const p = document.querySelector(".answer p");
    const { fontSize, lineHeight } = getComputedStyle(p);
    const lines = Math.round(p.clientHeight / parseFloat(lineHeight));
    const [two, three] = ["h2", "h3"].map((each) => document.querySelector(`.answer ${each}`).getBoundingClientRect());
    return {
      leading: parseFloat(lineHeight) / parseFloat(fontSize),
      perLine: p.textContent.length / lines,
      above: three.top - two.bottom,
      below: p.getBoundingClientRect().top - three.bottom,
    };
  });
  assert.ok(leading >= 1.5, String(leading)); // WCAG 2.2, 1.4.12
  assert.ok(perLine < 105, `${perLine} characters a line`);
  assert.ok(below < above, `a heading is nearer to its text (${below}) than to what stands above (${above})`);
});

scene("on a phone every question can be copied and edited, and its other versions be reached", async (its) => {
  const { chat, puppet } = await its.asked({ profile: await its.profile({ viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true }) });
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.ask("And how wide?");
  (await its.stage.puppet()).exit();
  await chat.page.locator(".turn").nth(1).locator(".of-asked button").first().waitFor();
  await chat.page.locator(".turn").nth(0).locator(".of-asked button:has([data-name=pen])").tap();
  await chat.page.waitForSelector(".turn:first-child .editor textarea:focus");
});
