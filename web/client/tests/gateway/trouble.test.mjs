// trouble.test.mjs -- each cause of a connection that does not come, with real gateways and their like.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import WebSocket from "ws"; // Node 20 has none of its own
import { Gateway } from "../../../../tests/browser/support/gateway.mjs";
import { connect, MemoryStore } from "../../dist/index.js";

let folder;
let plain;
let secure;
let closed; // takes no bearer of a token
const servers = [];

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "holdfast-trouble-"));
  const [cert, key] = ["cert.pem", "key.pem"].map((name) => join(folder, name));
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  await promisify(execFile)("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-out", cert, "-keyout", key, ...subject]);
  plain = new Gateway({});
  secure = new Gateway({ tls: { cert, key } });
  const secret_file = join(folder, "secret");
  await writeFile(secret_file, "0123456789abcdef".repeat(4));
  closed = new Gateway({ auth: { keys: [{ kid: "k", alg: "HS256", secret_file }] } });
  await Promise.all([plain, secure, closed].map((each) => each.start()));
});
after(async () => {
  await Promise.all([plain, secure, closed].map((each) => each.remove()));
  for (const server of servers) server.close();
  await rm(folder, { recursive: true, force: true });
});

async function listening(server) {
  servers.push(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return server.address().port;
}

/** The trouble with this address, once its cause is known. */
async function troubleOf(url, options = {}) {
  const warned = [];
  const { warn } = console;
  console.warn = (line) => warned.push(line);
  const client = connect(url, { WebSocket, store: new MemoryStore(), backoff: { baseMs: 1, capMs: 1 }, ...options });
  try {
    for await (const { trouble, state } of client.changes()) {
      assert.notEqual(state, "live");
      if (!trouble || trouble.cause === "unknown") continue;
      if (trouble.attempts < 3 && state !== "closed") continue; // it is told after a few
      assert.deepEqual(warned, [`holdfast: ${trouble.message}`]);
      return trouble;
    }
  } finally {
    console.warn = warn;
    client.close();
  }
}

/** A port where nobody listens: somebody did a moment ago. */
async function unused() {
  const server = net.createServer();
  const port = await listening(server);
  server.close();
  await once(server, "close");
  return port;
}

test("nobody listens", async () => {
  const { cause, message } = await troubleOf(`ws://127.0.0.1:${await unused()}/v1/ws`);
  assert.equal(cause, "gateway");
  assert.match(message, /^nothing answers at 127\.0\.0\.1:\d+: is it running, on this port\?$/);
});

test("there is no such name", async () => {
  assert.equal((await troubleOf("ws://gateway.invalid/v1/ws")).cause, "route");
});

test("a wrong path", async () => {
  const { cause, message } = await troubleOf(`ws://127.0.0.1:${plain.port}/ws`);
  assert.equal(cause, "path");
  assert.match(message, /not at \/ws: a gateway's path is \/v1\/ws/);
});

test("http in place of ws is a wrong path too, or none", async () => {
  const { cause } = await troubleOf(`http://127.0.0.1:${plain.port}`);
  assert.equal(cause, "path");
});

test("ws where TLS is wanted, wss where there is none, and a certificate that nobody trusts", async () => {
  assert.equal((await troubleOf(`ws://127.0.0.1:${secure.port}/v1/ws`)).cause, "tls");
  assert.equal((await troubleOf(`wss://127.0.0.1:${plain.port}/v1/ws`)).cause, "tls");
  assert.equal((await troubleOf(`wss://127.0.0.1:${secure.port}/v1/ws`)).cause, "tls");
});

test("something that opens no WebSocket", async () => {
  const server = createServer((_, reply) => reply.writeHead(404).end());
  const port = await listening(server);
  assert.equal((await troubleOf(`ws://127.0.0.1:${port}/v1/ws`)).cause, "proxy");
});

test("a bad token, no token where one is needed, and a fetch of tokens that fails", async () => {
  const url = `ws://127.0.0.1:${closed.port}/v1/ws`;
  assert.equal((await troubleOf(url, { token: "bad" })).cause, "token");
  assert.equal((await troubleOf(url)).cause, "token");
  const token = async () => Promise.reject(new Error("the sign-in is down"));
  assert.match((await troubleOf(url, { token })).message, /the sign-in is down/);
});
