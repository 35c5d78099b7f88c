// journal.mjs -- a client that shares no line with the page: what the gateway has on disk of a task.

import { once } from "node:events";
import WebSocket from "ws";

/** Sends the requests and returns all lines up to the first that `isLast`. */
export async function converse(port, token, request, isLast) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/ws`, "holdfast.v1");
  const lines = [];
  const done = new Promise((resolve, reject) => {
    socket.on("message", (data) => {
      for (const text of data.toString().split("\n").filter(Boolean)) {
        const line = JSON.parse(text);
        lines.push(line);
        if (isLast(line) || line.type === "error") resolve();
      }
    });
    socket.on("error", reject);
    socket.on("close", (code) => reject(new Error(`closed with ${code}`)));
  });
  await once(socket, "open");
  for (const line of [{ type: "hello", token }, request]) socket.send(JSON.stringify(line));
  await done;
  socket.terminate();
  return lines;
}

/** The events of a task, dense from 1 to its head. */
export async function eventsOf(port, token, ids) {
  const request = { type: "resume", ...ids, after: 0 };
  const lines = await converse(port, token, request, ({ type }) => type === "caught_up");
  const events = lines.filter(({ type }) => type === "event");
  events.forEach(({ seq }, at) => {
    if (seq !== at + 1) throw new Error(`event ${at + 1} has seq ${seq}`);
  });
  if (events.length === 0) throw new Error(`no events: ${JSON.stringify(lines.at(-1))}`);
  return events;
}

/** A task's output, to the letter. */
export function textOf(events) {
  const final = events.filter(({ event }) => event === "final_answer").at(-1);
  if (final) return final.data.output;
  const tokens = events.filter(({ event }) => event === "token");
  return tokens.map(({ data }) => data.text).join("");
}

export async function tasksOf(port, token, conversation_id) {
  const request = { type: "tasks", conversation_id };
  const lines = await converse(port, token, request, ({ type }) => type === "tasks");
  return lines.at(-1).tasks ?? [];
}

/** The line with which a request is answered. */
export async function answerTo(port, token, request) {
  const lines = await converse(port, token, { ...request, id: "r" }, ({ id }) => id === "r");
  return lines.at(-1);
}
