// states.mjs -- brings the page into each of its main states: for pictures, and for axe.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { tasksOf } from "./journal.mjs";
import { authWith, OTHER_SECRET, tokenOf } from "./tokens.mjs";

const ANSWER = `A token bucket allows bursts and bounds the average. In C it is a handful of lines:

\`\`\`c
/* Takes one token if there is one; now_ms never goes back. */
bool bucket_take(struct bucket *b, msec_t now_ms)
{
    double grown = (double)(now_ms - b->seen_ms) * b->per_ms;
    b->tokens = fmin(b->tokens + grown, b->burst);
    b->seen_ms = now_ms;
    return b->tokens >= 1 && (b->tokens -= 1, true);
}
\`\`\`

| limit | burst | what the client sees |
| --- | ---: | --- |
| 50 per second | 200 | nothing, until it floods |
| beyond it | | \`rate_limited\`, with \`retry_after_ms\` |

Two things to watch:

1. **Clocks.** Use the monotonic one: wall time jumps.
2. **Fairness.** One bucket for each connection, not one for all; see [the protocol](https://example.org/protocol).`;

async function calls(puppet) {
  puppet.emit("thinking", { text: "They want code that holds under load. " });
  puppet.emit("thinking", { text: "Look at how the gateway counts, then measure." });
  const call = (call_id, name, given, output, is_error = false) => {
    puppet.emit("tool_call", { call_id, name, arguments: given });
    if (output !== undefined) puppet.emit("tool_result", { call_id, name, output, is_error });
  };
  call("t1", "search", { query: "token bucket", folder: "gateway/" }, "gateway/ws.c:118: bucket_take");
  call("t2", "read_file", { path: "gateway/ws.c", lines: "100-140" }, "/* Takes one token … */");
  call("t3", "run_tests", { filter: "test_requests" }, "1 failed: test_flood_is_closed", true);
}

/** By name; each gets a scene and how the profile is made, and returns the page in that state. */
export const states = {
  async empty(its, options) {
    const chat = await its.chat({ profile: await its.profile(options) });
    await chat.waitForState("live");
    return chat;
  },

  async answer(its, options) {
    const profile = await its.profile(options);
    const { chat, puppet } = await its.asked({ profile, text: "How do I limit a client's rate in C?", said: [] });
    await calls(puppet);
    puppet.say(ANSWER);
    puppet.exit();
    await chat.waitForStatus("completed");
    await chat.page.waitForSelector(".turn .code");
    return chat;
  },

  async working(its, options) {
    const profile = await its.profile(options);
    const text = "Compare the three stores under load, and tell me which one to use";
    const { chat, puppet } = await its.asked({ profile, text, said: [] });
    await calls(puppet);
    puppet.emit("tool_call", { call_id: "t4", name: "bench", arguments: { store: "sqlite", clients: 2000 } });
    const spawn = (call_id, name, description) =>
      puppet.tell({ call: "spawn", call_id, agent: "puppet", input: name, name, description });
    spawn("c1", "sqlite", "Measure SQLite in WAL mode");
    const sqlite = await its.stage.puppet();
    spawn("c2", "redis", "Measure Redis Streams");
    const redis = await its.stage.puppet();
    sqlite.emit("progress", { progress: 0.7 });
    sqlite.tell({ call: "spawn", call_id: "c3", agent: "puppet", input: "x", name: "fsync", description: "Count fsyncs" });
    const fsync = await its.stage.puppet();
    fsync.say("212 fsyncs");
    fsync.exit();
    redis.say("Redis: 41,000 events a second");
    redis.exit();
    puppet.emit("progress", { progress: 0.45, note: "4 of 9 runs" });
    puppet.say("So far **SQLite keeps up** with two thousand clients; the commit");
    await chat.page.waitForSelector(".tree .tree [data-status=completed]");
    await chat.waitForText("4 of 9 runs", ".turn .note");
    return chat;
  },

  async question(its, options) {
    const profile = await its.profile(options);
    const text = "Tidy up the old snapshots";
    const { chat, puppet } = await its.asked({ profile, text, said: ["I found 14 snapshots older than 30 days."] });
    puppet.emit("input_required", {
      input_id: "q1",
      kind: "approval",
      prompt: "Delete 14 snapshots (38 GiB)?",
      tool: "terminal",
      arguments: { command: "snapshots prune --older-than 30d" },
    });
    puppet.emit("input_required", { input_id: "q2", kind: "question", prompt: "Where shall the report go?" });
    await chat.page.waitForSelector("[data-input-id=q2]");
    return chat;
  },

  /** An answer that says, looks, says and asks. */
  async order(its, options) {
    const profile = await its.profile(options);
    const text = "Free some space on the backup disk";
    const { chat, puppet } = await its.asked({ profile, text, said: ["I look at what is there.\n\n"], shown: "I look at what is there." });
    const call = (call_id, name, given, output) => {
      puppet.emit("tool_call", { call_id, name, arguments: given });
      puppet.emit("tool_result", { call_id, name, output, is_error: false });
    };
    call("1", "list_snapshots", { older_than: "30d" }, "14 snapshots, 38 GiB");
    puppet.say("Fourteen snapshots are older than a month; **two are the only copies** of their week. I check those.\n\n");
    call("2", "verify", { snapshots: ["2026-09-02", "2026-09-09"] }, "both are whole");
    puppet.say("Both are whole, so I leave them alone.\n\n");
    puppet.emit("input_required", {
      input_id: "q1",
      kind: "approval",
      prompt: "Delete the other twelve (31 GiB)?",
      tool: "terminal",
      arguments: { command: "snapshots prune --older-than 30d --keep 2026-09-02,2026-09-09" },
    });
    await chat.page.waitForSelector("[data-input-id=q1]");
    return chat;
  },

  /** A question with files, and two more at the field. */
  async files(its, options) {
    const chat = await its.chat({ profile: await its.profile(options) });
    const { page } = chat;
    const drawing = await page.evaluate(async () => {
      const canvas = new OffscreenCanvas(320, 200);
      const brush = canvas.getContext("2d");
      for (let depth = 0; depth < 10; depth++) {
        brush.fillStyle = `hsl(${195 + 4 * depth} 70% ${62 - 5 * depth}%)`;
        brush.fillRect(0, 20 * depth, 320, 20);
      }
      brush.strokeStyle = "#fffc";
      brush.lineWidth = 4;
      brush.beginPath();
      for (let x = 0; x <= 320; x += 4) brush.lineTo(x, 70 + 60 * Math.sin(x / 60) ** 2 + 30 * Math.cos(x / 25));
      brush.stroke();
      const blob = await canvas.convertToBlob();
      return [...new Uint8Array(await blob.arrayBuffer())];
    });
    const picture = { name: "profile.png", mimeType: "image/png", buffer: Buffer.from(drawing) };
    const text = (name) => ({ name, mimeType: "text/csv", buffer: Buffer.from("depth;temperature\n".repeat(900)) });
    await page.setInputFiles("#composer input[type=file]", [picture, text("soundings.csv")]);
    await page.waitForSelector("#composer .file[data-state=there] >> nth=1");
    await chat.ask("Where is the thermocline in this profile?");
    const puppet = await its.stage.puppet();
    puppet.say("Between **38 and 61 m**: the temperature falls by 9 K there, and by 2 K in all that lies below.");
    puppet.exit();
    await chat.waitForStatus("completed");
    await page.setInputFiles("#composer input[type=file]", [picture, text("soundings-2025.csv")]);
    await page.waitForSelector("#composer .file[data-state=there] >> nth=1");
    await page.waitForSelector("#composer canvas:visible");
    await page.waitForSelector(".of-question canvas:visible");
    return chat;
  },

  /** A question that is edited in its place. */
  async edited(its, options) {
    const chat = await states.failed(its, options);
    await chat.page.press("#message", "ArrowUp");
    await chat.page.waitForSelector(".editor textarea:focus");
    return chat;
  },

  /** Choices, and an approval with what the agent offers. */
  async choices(its, options) {
    const { chat, puppet } = await its.asked({ profile: await its.profile(options), said: ["I found two charts."] });
    const offered = [
      { id: "one", name: "Allow once", kind: "allow_once" },
      { id: "all", name: "Allow for this conversation", kind: "allow_always" },
      { id: "no", name: "Never", kind: "reject_always" },
    ];
    const action = { tool: "terminal", arguments: { command: "fetch charts --all" } };
    puppet.emit("input_required", { input_id: "q", kind: "question", prompt: "Which chart?", options: ["North", "South"] });
    puppet.emit("input_required", { input_id: "a", kind: "approval", prompt: "Fetch both?", ...action, options: offered });
    await chat.page.waitForSelector("[data-input-id=a].open");
    return chat;
  },

  /** A message that is too long, at the field. */
  async tooLong(its, options) {
    const chat = await its.chat({ profile: await its.profile(options) });
    await chat.waitForState("live");
    await chat.page.fill("#message", "The log of the week. ".repeat(4_000));
    await chat.page.waitForSelector("#room[role=alert]");
    return chat;
  },

  /** The token is good no more while its owner reads. */
  async signedOut(its, options) {
    await its.reconfigure({ auth: await authWith(its.gateway.folder) });
    const chat = await its.chat({ profile: await its.profile(options) });
    await chat.page.fill("#sign-in input", tokenOf("ada"));
    await chat.page.press("#sign-in input", "Enter");
    await chat.waitForState("live");
    await chat.ask("How deep is the sea?");
    (await its.stage.puppet()).exit();
    await chat.waitForStatus("completed");
    await its.reconfigure({ auth: await authWith(its.gateway.folder, OTHER_SECRET) });
    await chat.page.evaluate(() => dispatchEvent(new Event("online")));
    await chat.waitForState("closed");
    await chat.page.waitForSelector("#why-not button");
    return chat;
  },

  /** A gateway that wants a token, and knows where people get one. */
  async signIn(its, options) {
    const auth = await authWith(its.gateway.folder);
    await its.reconfigure({ auth, page: { name: "Reef", sign_in_url: "https://login.example/start" } });
    const chat = await its.chat({ profile: await its.profile(options) });
    await chat.waitForText("Sign in is needed", "#sign-in h2");
    return chat;
  },

  /** In the operator's dress, with what its agent suggests. */
  async dressed(its, options) {
    const mark = join(its.gateway.folder, "mark.svg");
    const waves = [18, 32, 46].map((y) => `<path d="M4 ${y}c8-12 20-12 28 0s20 12 28 0" stroke="#fff" stroke-width="6" fill="none"/>`);
    await writeFile(
      mark,
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" fill="#1f4f9e"/>${waves.join("")}</svg>`,
    );
    const [agent, ...others] = its.gateway.config.agents;
    const description = "Soundings, charts and tides of the northern reef.";
    const examples = ["How deep is the sea here?", "When is low water today?", "Which beacons are out of order?"];
    await its.reconfigure({
      page: { name: "Reef", accent: "#1f4f9e", mark },
      agents: [{ ...agent, name: "pilot", description, examples }, ...others],
    });
    const chat = await its.chat({ profile: await its.profile(options) });
    await chat.waitForState("live");
    await chat.page.waitForSelector(".tries button");
    await chat.page.waitForFunction(() => document.querySelector("#empty .own-mark")?.naturalWidth > 0);
    return chat;
  },

  /** Several conversations, and the menu of one. */
  async list(its, options) {
    const chat = await its.chat({ profile: await its.profile(options) });
    const { page } = chat;
    await chat.waitForState("live");
    for (const text of ["Which beacons are out of order?", "Summarise the log of the week", "How deep is the sea here?"]) {
      await page.evaluate(() => document.querySelector("#new").click());
      await page.waitForSelector("#empty");
      await chat.ask(text);
      const puppet = await its.stage.puppet();
      puppet.say("It is all in the log of this morning: **two beacons** are dark, and the third is being mended.");
      puppet.exit();
      await chat.waitForStatus("completed");
    }
    if (options?.isMobile) await page.click("#menu");
    const second = "#conversations li[data-conversation-id] >> nth=1";
    await page.hover(second);
    await page.click(`${second} >> .more`);
    await page.waitForSelector("#conversation-menu:popover-open");
    return chat;
  },

  /** Conversations that have the words, those words marked. */
  async search(its, options) {
    const chat = await this.list(its, options);
    await chat.page.keyboard.press("Escape");
    await chat.page.fill("#search", "beacons");
    await chat.page.waitForSelector("#found .snippet mark");
    return chat;
  },

  /** Links to a conversation, one of which was just made. */
  async share(its, options) {
    const chat = await this.answer(its, options);
    const { page } = chat;
    await page.click("#more");
    await page.click("#conversation-menu button:text-is('Share')");
    await page.click("#share-dialog form button[type=submit]");
    await page.waitForSelector("#share-dialog [data-share-id]");
    chat.link = await page.inputValue("#link"); // which reads
    await page.selectOption("#share-dialog select[aria-label='What the link is good for']", "true");
    await page.fill("#share-dialog input[aria-label='Who writes']", "Bob");
    await page.click("#share-dialog form button[type=submit]");
    await page.waitForSelector("#share-dialog [data-share-id] >> nth=1");
    return chat;
  },

  /** The page of whoever holds a link. */
  async shared(its, options) {
    const chat = await this.share(its);
    const { hash } = new URL(chat.link);
    const guest = await its.chat({ profile: await its.profile(options), hash });
    await guest.page.waitForSelector(".turn .code");
    await guest.waitForState("live");
    return guest;
  },

  /** A code for another device. */
  async handover(its, options) {
    const chat = await this.failed(its, options);
    if (options?.isMobile) await chat.page.click("#menu");
    await chat.page.click("#hand-over");
    await chat.page.waitForSelector(".qr[data-ready]");
    return chat;
  },

  /** The device to which another one hands over. */
  async arrival(its, options) {
    const chat = await its.chat({ profile: await its.profile(options), hash: "#handover=0cIB6o_f4DHPfO2HHpCDr1MW" });
    await chat.page.waitForSelector("#arrival button");
    return chat;
  },

  async schedules(its, options) {
    const chat = await states.failed(its, options);
    const { page } = chat;
    const make = async (text, every, more = {}) => {
      await page.fill("#schedules-dialog textarea", text);
      await page.selectOption("select[aria-label='How often']", every);
      for (const [label, value] of Object.entries(more)) await page.fill(`input[aria-label='${label}']`, value);
      await page.click("#schedules-dialog form button[type=submit]");
      await page.waitForSelector(`[data-schedule-id] .title:text-is("${text}")`);
    };
    await page.click("#later");
    await make("What changed in the logs since yesterday?", "weekdays", { Time: "08:30" });
    await make("Count the open incidents", "cron", { "Cron: minute, hour, day, month, weekday": "*/30 9-17 * * *" });
    await page.click("[data-schedule-id] button[title=Pause]");
    await page.waitForSelector("[data-schedule-id][data-paused]");
    await page.fill("#schedules-dialog textarea", "Remind me of the tide tables");
    return chat;
  },

  async failed(its, options) {
    const profile = await its.profile(options);
    const { chat, puppet } = await its.asked({ profile, said: ["The Mariana Trench is almost"] });
    puppet.exit(3);
    await chat.waitForStatus("failed");
    return chat;
  },

  async tray(its, options) {
    const chat = await this.failed(its, options);
    await chat.page.click("#background");
    await chat.ask("Index the archive");
    const index = await its.stage.puppet();
    await chat.ask("Summarise this week's incidents");
    const summary = await its.stage.puppet();
    index.emit("progress", { progress: 0.3, note: "1,204 of 4,010 files" });
    summary.say("Three incidents, **none open**.");
    summary.exit();
    await chat.page.waitForSelector("#tray [data-fresh] [data-status=completed]");
    await chat.page.click("#tray [data-fresh] summary");
    return chat;
  },

  async reconnecting(its, options) {
    const chat = await this.answer(its, options);
    await its.network.cut();
    await chat.waitForState("waiting", "offline");
    await chat.ask("And in Go?");
    await chat.page.waitForSelector("#connection .detail:text('waiting')");
    return chat;
  },

  async catchingUp(its, options) {
    await its.reconfigure({ compression: false }); // compressed, the replay is too short to be held
    const profile = await its.profile(options);
    const { chat, puppet } = await its.asked({ profile, text: "Read the whole log aloud", said: ["It begins", " well."] });
    await its.network.cut();
    for (let n = 0; n < 1_650; n++) puppet.emit("thinking", { text: `${n} ` }), puppet.say(` ${n}`);
    puppet.emit("progress", { progress: 0.8, note: "nearly there" });
    const { token } = await chat.guest();
    const id = chat.conversationId();
    while ((await tasksOf(its.gateway.port, token, id))[0].head < 3_305);
    its.network.hold(150_000);
    await its.network.restore();
    await chat.page.evaluate(() => dispatchEvent(new Event("online")));
    await chat.waitForState("catching-up");
    return chat;
  },

  async connection(its, options) {
    const chat = await states.inspector(its, options);
    await chat.page.click("#bar nav a:text-is('Connection')");
    await chat.page.waitForSelector("[data-cursor]");
    await chat.page.waitForSelector("[data-fact=Latency] dd:has-text('median')");
    return chat;
  },

  async formulae(its, options) {
    const said = "Completing the square of $ax^2 + bx + c = 0$ with $a \\ne 0$:\n\n$$\nx_{1,2} = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}\n$$\n\nThe root is real when \\(b^2 \\ge 4ac\\)[^1].\n\n[^1]: Else there are two complex ones.\n";
    const { chat, puppet } = await its.asked({ profile: await its.profile(options), text: "Where is the formula from?", said: [said], shown: "" });
    puppet.exit();
    await chat.waitForStatus("completed");
    await chat.page.waitForSelector(".katex-display .sqrt");
    await chat.page.evaluate(() => document.fonts.ready);
    return chat;
  },

  async inspector(its, options) {
    const profile = await its.profile(options);
    const text = "How do I limit a client's rate in C?";
    const { chat, puppet } = await its.asked({ profile, text, said: [] });
    await calls(puppet);
    for (const piece of ANSWER.match(/.{1,16}/gs)) {
      puppet.say(piece);
      await setTimeout(5 + 2 * (piece.length % 7)); // a time line wants some time
    }
    puppet.exit();
    await chat.waitForStatus("completed");
    await chat.page.click(".turn .inspect");
    await chat.page.waitForSelector(".rows td:text('task.completed')");
    await chat.page.focus("#scrub");
    for (let step = 0; step < 3; step++) await chat.page.keyboard.press("PageDown");
    return chat;
  },
};

export const axeSource = () =>
  readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
