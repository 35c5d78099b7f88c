// faces.test.mjs -- README.md's `useChat` in Chromium, on a page of its own origin: cut, reloaded, stopped.

import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../clients/support/until.mjs";
import { linesOf } from "../clients/support/docs.mjs";
import { CLIENTS, bundle, site } from "./support/site.mjs";

const PAGE = `
import { createElement } from "react";
import { createRoot } from "react-dom/client";
import { useHoldfast } from "readme";
function Chat() {
  const chat = useHoldfast("chat-1");
  window.chat = chat;
  const texts = chat.messages.flatMap(({ role, parts }) => (role === "assistant" ? parts : []));
  const text = texts.map((part) => (part.type === "text" ? part.text : "")).join("");
  return createElement("p", { id: "answer", "data-status": chat.status }, text);
}
createRoot(document.getElementById("root")).render(createElement(Chat));
`;

/** The page as one script; README's lines are its module "readme". */
async function script(base, token) {
  const lines = (await linesOf("use-chat")).replace("ws://127.0.0.1:8080", base.replace("http", "ws"));
  const readme = {
    name: "readme",
    setup(to) {
      to.onResolve({ filter: /^readme$/ }, () => ({ path: "readme", namespace: "readme" }));
      to.onLoad({ filter: /.*/, namespace: "readme" }, () => ({
        contents: `const token = ${JSON.stringify(token)};\n${lines}`,
        resolveDir: CLIENTS,
        loader: "js",
      }));
    },
  };
  return bundle(PAGE, [readme]);
}

test("useChat of README.md over a cut, a reload and a stop", { timeout: 180_000 }, async (t) => {
  const { page, world, token } = await site(t, script);
  const answer = () => page.locator("#answer").textContent();
  const says = async (text) => page.waitForFunction((wanted) => document.querySelector("#answer")?.textContent === wanted, text);
  const ask = (...steps) => page.evaluate((text) => void window.chat.sendMessage({ text }), JSON.stringify(steps));
  await page.waitForSelector("#answer", { state: "attached" });

  const gate = world.gate();
  await ask({ token: "one " }, { wait: gate.path }, { token: "two" });
  await says("one ");
  await world.network.cut();
  await page.waitForFunction(() => window.chat.status === "error");
  await world.network.restore();
  await page.evaluate(() => void window.chat.resumeStream());
  await page.waitForFunction(() => window.chat.status === "streaming");
  assert.equal(await answer(), "one ");
  await page.reload(); // the page kept nothing: `resume: true` brings the whole answer back
  await says("one ");
  await gate.open();
  await says("one two");
  await page.waitForSelector("#answer[data-status=ready]");

  await ask({ token: " three" }, { wait: world.gate().path });
  await says("one two three");
  await page.evaluate(() => window.chat.stop());
  const stopped = async () => (await world.tasks(token, "chat-1")).map(({ status }) => status);
  await until(async () => (await stopped()).includes("cancelled"), "the task to be cancelled");
  assert.deepEqual(await stopped(), ["completed", "cancelled"]);
});
