#!/usr/bin/env node
// An agent in JavaScript: repeats each message, a word at a time, and stops politely.
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const say = (event, data) => process.stdout.write(JSON.stringify({ event, data }) + "\n");

let stopped = false;
process.on("SIGTERM", () => { stopped = true; }); // a cancel: there are grace_s seconds to finish

const inbox = [];
const lines = createInterface({ input: process.stdin });
const run = await new Promise((resolve) => {
  lines.on("line", (text) => {
    const line = JSON.parse(text);
    if (line.type === "run") resolve(line);
    if (line.type === "message") inbox.push(line.content);
  });
});

async function repeat(text) {
  for (const word of text.match(/\S+\s*/g) ?? []) {
    if (stopped) return say("token", { text: "… (stopped)" });
    say("token", { text: word });
    await sleep(20);
  }
}

const turns = run.history.filter((message) => message.role === "user").length;
if (turns > 0) say("token", { text: `(${turns} before) ` });
await repeat(run.input);
while (inbox.length > 0 && !stopped) await repeat(" " + inbox.shift());
lines.close(); // the tokens, joined, are the answer
