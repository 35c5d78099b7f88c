// ws_deflate.test.mjs -- the stock `ws` client reads a stream that is compressed with the message before as the
// dictionary of each message: in every form that it can offer, the same events as on a plain connection.

import assert from "node:assert/strict";
import { test } from "node:test";
import WebSocket from "ws";
import { World } from "./support/world.mjs";

const TOKENS = 300;
// One line a message, many lines a message, a line that is longer than a frame.
const STEPS = [
  ...Array.from({ length: TOKENS }, (_, n) => ({ token: `word ${n} ` })),
  { flood: 2000 },
  { token: "é".repeat(20_000) },
  { flood: 100 },
];
const offers = [
  ["by default", {}, /^permessage-deflate(?!.*server_no_context_takeover)/],
  ["of every message", { threshold: 0 }, /^permessage-deflate(?!.*server_no_context_takeover)/],
  ["without the server's window", { serverNoContextTakeover: true }, /server_no_context_takeover/],
  ["without its own window", { clientNoContextTakeover: true }, /client_no_context_takeover/],
  ["with small windows", { serverMaxWindowBits: 10, clientMaxWindowBits: 10 }, /server_max_window_bits=10/],
];

/** Reads a stream from its beginning: the lines of its events, and how many bytes came. */
async function read(world, token, ids, perMessageDeflate) {
  const socket = new WebSocket(`ws://127.0.0.1:${world.gateway.port}/v1/ws`, { perMessageDeflate });
  const lines = [];
  try {
    await new Promise((resolve, reject) => {
      socket.on("error", reject);
      socket.on("close", (code) => reject(new Error(`closed with ${code}`)));
      socket.on("open", () => {
        socket.send(JSON.stringify({ type: "hello", id: "1", token }));
        socket.send(JSON.stringify({ type: "resume", id: "2", after: 0, ...ids }));
      });
      socket.on("message", (message) => {
        for (const line of String(message).split("\n")) {
          const told = JSON.parse(line);
          assert.notEqual(told.type, "error", line);
          if (told.type !== "event") continue;
          lines.push(line);
          if (/^task\.(completed|failed|cancelled)$/.test(told.event)) resolve();
        }
      });
    });
    return { lines, bytes: socket._socket.bytesRead, agreed: socket.extensions };
  } finally {
    socket.removeAllListeners("close");
    socket.terminate();
  }
}

test("the stock client of ws reads what a plain one reads", async (t) => {
  const world = await new World({ compression: true }).open();
  try {
    const { token } = await world.guest();
    const gate = world.gate();
    const task = await world.ask(token, "c", JSON.stringify([...STEPS.slice(0, 1), { wait: gate.path }, ...STEPS.slice(1)]));
    const ids = { task_id: task.task_id, conversation_id: "c" };
    const follow = (offer) => read(world, token, ids, offer);
    const live = [follow(false), ...offers.map(([, offer]) => follow(offer))]; // they follow it, and read a part again
    gate.open();
    const [plain, ...others] = await Promise.all(live);
    assert.deepEqual(plain.lines.map((line) => JSON.parse(line).seq), plain.lines.map((_, n) => n + 1), "dense");
    assert.equal(plain.agreed, "");
    for (const [n, [name, offer, wanted]] of offers.entries())
      await t.test(name, async () => {
        const again = await follow(offer);
        for (const { lines, agreed } of [others[n], again]) {
          assert.ok(agreed.split(",").includes("permessage-deflate"), agreed);
          assert.deepEqual(lines, plain.lines);
        }
        // Short messages have nothing to be compressed with when the client wants each of them alone.
        const { bytes } = offer.serverNoContextTakeover ? again : others[n];
        assert.ok(bytes < plain.bytes / 2, `${bytes} of ${plain.bytes} bytes`);
        assert.match(await answerTo(world, offer), wanted);
      });
  } finally {
    await world.close();
  }
});

/** The answer to an offer, as it stands in the handshake. */
function answerTo(world, perMessageDeflate) {
  const socket = new WebSocket(`ws://127.0.0.1:${world.gateway.port}/v1/ws`, { perMessageDeflate });
  return new Promise((resolve, reject) => {
    socket.on("error", reject);
    socket.on("upgrade", ({ headers }) => {
      resolve(headers["sec-websocket-extensions"] ?? "");
      socket.terminate();
    });
  });
}
