// client.test.mjs -- web/client in Chromium against the built gateway, when networks, tabs and
// gateways come and go.  Written like network.test.mjs: each text must be what the journal says.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { detail, scene } from "./support/client_scene.mjs";

const CUTS = Number(process.env.HOLDFAST_SOAK_CUTS ?? 12); // 200 in the long form
const PIECES = 300; // of text between two cuts
const withoutWorker = (page) => page.addInitScript(() => delete window.SharedWorker);
const withWorker = (url) => (page) =>
  page.addInitScript((url) => {
    const Worker = window.SharedWorker;
    window.SharedWorker = class extends Worker {
      constructor(_, options) {
        super(url, options);
      }
    };
  }, url);

for (const seconds of process.env.HOLDFAST_LOOKS === "few" ? [30] : [1, 30, 120]) {
  scene(`the network is cut for ${seconds} s in mid-answer`, async (its) => {
    const prepare = (page) => page.clock.install();
    const { tab, puppet } = await its.asked({ prepare, share: false });
    await its.network.cut();
    await tab.waitForState("waiting", "offline");
    puppet.say(" deep");
    for (let passed = 0; passed < seconds; passed += 10) {
      await tab.page.clock.fastForward(Math.min(10, seconds - passed) * 1_000);
      await tab.waitForState("waiting", "offline");
    }
    puppet.say(" indeed");
    await its.network.restore();
    await tab.page.clock.fastForward(30_000);
    await tab.waitForText("Deep – very deep indeed");
    puppet.exit();
    await tab.waitForStatus("completed");
    await tab.assertIsJournal();
  });
}

scene("a task that ends while the network is down is read to its end", async (its) => {
  const { tab, puppet } = await its.asked();
  await its.network.cut();
  puppet.say(" deep");
  puppet.exit();
  while ((await tab.tasks())[0].status !== "completed");
  await its.network.restore();
  await tab.waitForStatus("completed");
  await tab.assertIsJournal();
});

detail("a half-open socket is found when the page wakes", async (its) => {
  const { tab, puppet } = await its.asked({ share: false });
  its.network.freeze();
  puppet.say(" deep");
  await tab.page.evaluate(() => dispatchEvent(new Event("online")));
  await tab.waitForText("Deep – very deep");
  puppet.exit();
  await tab.waitForStatus("completed");
  await tab.assertIsJournal();
});

scene("the gateway is killed and started again", async (its) => {
  const { tab } = await its.asked();
  await its.gateway.stop("SIGKILL");
  await tab.waitForState("waiting", "offline");
  await its.gateway.start();
  await tab.waitForStatus("failed");
  const { code, output } = await tab.page.evaluate(() =>
    conversation.tasks[0].result().catch(({ code, output }) => ({ code, output })),
  );
  assert.deepEqual([code, output], ["orphaned", "Deep – very"]);
  await tab.assertIsJournal();

  await tab.ask("And now?");
  const puppet = await its.stage.puppet();
  puppet.say("Now it goes on.");
  puppet.exit();
  await tab.waitForText("Now it goes on.");
  await tab.waitForStatus("completed");
  await tab.assertIsJournal();
});

detail("the gateway is stopped as planned: the client comes back when it said", async (its) => {
  const { tab } = await its.asked();
  await its.gateway.stop("SIGTERM");
  await tab.waitForState("waiting", "offline");
  await its.gateway.start();
  await tab.waitForState("live");
  await tab.waitForStatus("failed");
  await tab.assertIsJournal();
});

for (const [where, prepare] of [
  ["a SharedWorker", undefined],
  ["the leading tab", withoutWorker],
  ["the leading tab, where the worker cannot be loaded", withWorker("/nothing.js")],
]) {
  scene(
    `two tabs share one socket in ${where}, and closing the first loses nothing`,
    async (its) => {
      const profile = await its.profile();
      const { tab: first, puppet } = await its.asked({ profile, prepare });
      const second = await its.tab({ profile, prepare });
      await second.waitForText("Deep – very");
      assert.equal(await its.connections(), 1);
      await second.ask("100 1", { agent: "slow" });
      await second.waitFor(() => conversation.tasks[1]?.text);

      puppet.say(" deep");
      const closed = first.page.close();
      puppet.say(" and", " then");
      await closed;
      puppet.say(" some");
      await second.waitFor(() => conversation.tasks[0].text === "Deep – very deep and then some");
      puppet.exit();
      await second.waitFor(() => conversation.tasks[0].status === "completed");
      await second.waitForState("live");
      await second.waitFor(() => conversation.tasks[1].status === "completed");
      assert.equal(await its.connections(), 1);
      const states = await second.page.evaluate(() => window.states);
      const lives = states.filter((state) => state === "live").length;
      assert.equal(lives, prepare ? 2 : 1, "only a worker's socket outlives the first tab");
      await second.assertIsJournal();
    },
  );
}

scene("the worker dies, a tab takes its place, and nothing is lost", async (its) => {
  const profile = await its.profile();
  const prepare = withWorker("/mortal.js");
  const { tab: first, puppet } = await its.asked({ profile, prepare });
  const second = await its.tab({ profile, prepare });
  await second.waitForText("Deep – very");
  await first.page.evaluate(() => new BroadcastChannel("die").postMessage(""));
  await first.waitFor(() => window.states.filter((state) => state === "live").length === 2);
  puppet.say(" deep");
  await first.waitForText("Deep – very deep");
  await second.waitForText("Deep – very deep");
  assert.equal(await its.connections(), 1);
  puppet.exit();
  await first.waitForStatus("completed");
  await first.assertIsJournal();
});

detail(
  "a tab that opens while the leading one is busy is led too, and a third one leads on",
  async (its) => {
    const profile = await its.profile();
    const { tab: first, puppet } = await its.asked({ profile, prepare: withoutWorker });
    const tabs = [first];
    for (const word of [" one", " two", " three"]) {
      const next = await its.tab({ profile, prepare: withoutWorker });
      await next.waitForState("live");
      await tabs.shift().page.close();
      tabs.push(next);
      puppet.say(word);
      await next.waitFor((end) => conversation.tasks[0]?.text.endsWith(end), word);
    }
    puppet.exit();
    await tabs[0].waitForStatus("completed");
    await tabs[0].assertIsJournal();
  },
);

scene("a message typed without a network survives a reload and is sent once", async (its) => {
  const tab = await its.tab();
  await tab.waitForState("live");
  await its.network.cut();
  await tab.waitForState("waiting", "offline");
  await tab.ask("Anybody there?");
  await tab.waitFor(() => conversation.outgoing[0]?.state === "queued");
  await tab.load();
  await tab.connect();
  await tab.waitFor(() => conversation.outgoing[0]?.state === "queued");
  assert.equal(await tab.page.evaluate(() => conversation.turns[0].input), "Anybody there?");
  await its.network.restore();
  await tab.page.evaluate(() => client.retry());
  const puppet = await its.stage.puppet();
  assert.equal(puppet.run.input, "Anybody there?");
  puppet.say("Yes");
  await tab.waitForText("Yes");
  assert.equal(await tab.page.evaluate(() => client.outbox.length), 0);
  puppet.exit();
  await tab.waitForStatus("completed");
  assert.equal((await tab.tasks()).length, 1);
  await tab.load();
  await tab.connect();
  await tab.waitFor(() => conversation.loaded);
  assert.equal((await tab.tasks()).length, 1);
});

detail("a message is kept although the page is left in the same breath", async (its) => {
  const tab = await its.tab();
  await tab.waitForState("live");
  await its.network.cut();
  await tab.waitForState("waiting", "offline");
  for (const text of ["one", "two", "three"]) {
    await tab.page.evaluate((text) => {
      conversation.ask(text, { when_busy: "enqueue" });
      location.href = "about:blank";
    }, text);
    await tab.page.waitForURL("about:blank");
    await tab.load();
    await tab.connect();
    await tab.waitFor((last) => client.outbox.at(-1)?.text === last, text);
  }
  await its.network.restore();
  await tab.page.evaluate(() => client.retry());
  for (const text of ["one", "two", "three"]) {
    const puppet = await its.stage.puppet();
    assert.equal(puppet.run.input, text);
    puppet.exit();
  }
});

scene("a message whose `started` was lost starts nothing twice", async (its) => {
  const tab = await its.tab();
  await tab.waitForState("live");
  its.network.deafen();
  await tab.ask("Once?");
  const puppet = await its.stage.puppet();
  puppet.say("Once");
  await its.network.cut();
  await its.network.restore();
  await tab.waitForText("Once");
  puppet.exit();
  await tab.waitForStatus("completed");
  assert.equal((await tab.tasks()).length, 1);
});

detail("two tabs that start at once, each on its own socket, are one guest", async (its) => {
  const profile = await its.profile();
  const [one, two] = await Promise.all([1, 2].map(() => its.tab({ profile, share: false })));
  await Promise.all([one.waitForState("live"), two.waitForState("live")]);
  const owners = await Promise.all([one, two].map(({ page }) => page.evaluate(() => client.owner)));
  assert.equal(owners[0], owners[1]);
});

// ---- tokens

const SECRET = "a secret of more than thirty-two bytes, for the tests";

function jwt(sub, seconds) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const exp = Math.floor(Date.now() / 1000) + seconds;
  const signed = `${part({ alg: "HS256", typ: "JWT", kid: "k1" })}.${part({ sub, exp })}`;
  return `${signed}.${createHmac("sha256", SECRET).update(signed).digest("base64url")}`;
}

const folder = mkdtempSync(join(tmpdir(), "holdfast-keys-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const secret_file = join(folder, "secret");
writeFileSync(secret_file, SECRET);
const keys = { auth: { keys: [{ kid: "k1", alg: "HS256", secret_file }] } };

scene(
  "tokens are fetched again after a refusal, and before they expire",
  async (its) => {
    const lives = [-60, 61, 3_600]; // refused; soon to expire; good
    const stale = [];
    const prepare = (page) =>
      page.exposeFunction("fetchToken", (old) => {
        stale.push(old ? "stale" : "none");
        return jwt("ada", lives.shift());
      });
    its.journalToken = jwt("ada", 3_600);
    const { tab, puppet } = await its.asked({ prepare });
    await tab.waitFor(() => states.includes("live"));
    while (lives.length > 0) await tab.page.evaluate(() => client.request("ping", {}));
    await tab.page.evaluate(() => client.request("ping", {}));
    assert.deepEqual(stale, ["none", "stale", "stale"]);
    const states = await tab.page.evaluate(() => window.states);
    assert.equal(states.filter((state) => state === "live").length, 1);
    puppet.exit();
    await tab.waitForStatus("completed");
    await tab.assertIsJournal();
  },
  keys,
);

// ---- the rest

scene("the example works", async (its) => {
  const page = await (await its.profile()).newPage();
  await page.goto(`${its.origin}/example/index.html?gateway=${encodeURIComponent(its.url)}`);
  await page.waitForFunction(() => document.getElementById("state").value === "live");
  await page.fill("#message", "Hello?");
  await page.press("#message", "Enter");
  const puppet = await its.stage.puppet();
  puppet.say("Hello", " you");
  puppet.exit();
  await page.waitForFunction(
    () => document.querySelector("li")?.textContent === "Hello?\nHello you\ncompleted",
  );
});

detail("faults from the page's address: an answer over many cuts", async (its) => {
  const page = await (await its.profile()).newPage();
  const gateway = encodeURIComponent(its.url);
  await page.goto(`${its.origin}/example/index.html?fault=dropAfter:25&gateway=${gateway}`);
  await page.fill("#message", "What?");
  await page.press("#message", "Enter");
  const puppet = await its.stage.puppet();
  const words = Array.from({ length: 60 }, (_, at) => `${at} `);
  puppet.say(...words);
  puppet.exit();
  await page.waitForFunction(
    (text) => document.querySelector("li")?.textContent === text,
    `What?\n${words.join("")}\ncompleted`,
  );
});

const manyCuts = async (its) => {
  const tab = await its.tab({ backoff: { baseMs: 20, capMs: 100 } });
  await tab.ask("Count");
  const puppet = await its.stage.puppet();
  const heaps = [];
  let said = 2; // task.created, task.started
  for (let cut = 1; cut <= CUTS; cut++) {
    const seen = said + Math.floor(Math.random() * PIECES);
    puppet.say(...Array.from({ length: PIECES }, () => `${++said} `));
    await tab.waitFor((seq) => conversation.tasks[0]?.transcript.last >= seq, seen);
    await its.network.cut();
    await its.network.restore();
    await tab.waitForState("live");
    heaps.push(await tab.heap());
  }
  puppet.exit();
  await tab.waitForStatus("completed");
  await tab.assertIsJournal();
  const last = await tab.page.evaluate(() => conversation.tasks[0].transcript.last);
  assert.equal(last, said + 2); // the final answer, task.completed
  const quarters = [1, 2, 3, 4].map((n) => heaps[Math.floor((CUTS * n) / 4) - 1]);
  console.log(`heap after each quarter, KiB: ${quarters.map((bytes) => Math.round(bytes / 1024)).join(" ")}`);
  const growth = heaps.at(-1) - heaps[Math.floor(CUTS / 4)];
  assert.ok(growth < 1_000_000, `the heap grew: ${heaps.join(" ")}`);
};

scene(`${CUTS} random cuts over one long task: its text is the journal's, the heap stays flat`, manyCuts);

detail(
  `${CUTS} random cuts, compressed: its text is the journal's, the heap stays flat`,
  async (its) => {
    await manyCuts(its);
    const tab = await its.tab();
    const agreed = await tab.page.evaluate(async (url) => {
      const socket = new WebSocket(url, "holdfast.v1");
      await new Promise((resolve) => (socket.onopen = resolve));
      return socket.extensions;
    }, its.url);
    assert.match(agreed, /^permessage-deflate/);
  },
  { compression: true },
);

detail("an agent's own events stand among the parts, in our words or in AG-UI's", async (its) => {
  const { tab, puppet } = await its.asked();
  puppet.emit("custom", { event_type: "chart", payload: [1] });
  puppet.say(" deep");
  puppet.emit("custom", { name: "chart", value: [2] });
  puppet.emit("custom", { name: "chart", data: [3] });
  puppet.exit();
  await tab.waitForStatus("completed");
  const parts = await tab.page.evaluate(() => conversation.tasks[0].transcript.parts.map(({ type, custom }) => custom ?? type));
  const chart = (n) => ({ event_type: "chart", payload: [n] });
  assert.deepEqual(parts, ["text", chart(1), "text", chart(2), chart(3)]);
});

detail("a watch of all events is refused in words where tabs share a connection", async (its) => {
  const ask = (tab) =>
    tab.page.evaluate(() => client.request("watch", { events: true }).then(({ type }) => type, ({ code, message }) => `${code}: ${message}`));
  const { tab, puppet } = await its.asked();
  assert.match(await ask(tab), /^unsupported: .*share: false/);
  const alone = await its.tab({ share: false });
  await alone.waitForState("live");
  assert.equal(await ask(alone), "ok");
  puppet.exit();
});

for (const share of [true, false]) {
  const config = { origins: ["http://elsewhere.example"] };
  detail(
    `a page that is refused learns why, and says it once, ${share ? "in a worker" : "by itself"}`,
    async (its) => {
      const warnings = [];
      const prepare = (page) =>
        page.on("console", (message) => message.type() === "warning" && warnings.push(message.text()));
      const tab = await its.tab({ prepare, share, backoff: { baseMs: 1, capMs: 1 } });
      await tab.waitFor(() => client.trouble?.cause === "origin");
      await its.gateway.stop();
      await tab.waitFor(() => client.trouble?.cause === "gateway");
      const told = warnings.filter((text) => text.startsWith("holdfast: "));
      assert.equal(told.length, 1);
      assert.match(told[0], new RegExp(`accepts no pages of ${its.origin}: add it to "origins"`));
    },
    config,
  );
}

/** Why a page does not get to this address, as its client says it. */
async function troubleAt(its, share, url) {
  const tab = await its.tab({ url, share, backoff: { baseMs: 1, capMs: 1 } });
  await tab.waitFor(() => client.trouble && client.trouble.cause !== "unknown");
  const { cause, message } = await tab.page.evaluate(() => client.trouble);
  await tab.page.close();
  return `${cause}: ${message}`;
}

for (const share of [true, false]) {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-closed-"));
  writeFileSync(join(folder, "secret"), "0123456789abcdef".repeat(4));
  const auth = { keys: [{ kid: "k", alg: "HS256", secret_file: join(folder, "secret") }] };
  detail(
    `each cause of a connection that does not come, ${share ? "in a worker" : "by itself"}`,
    async (its) => {
      const host = `127.0.0.1:${its.network.port}`;
      assert.equal(await troubleAt(its, share, `ws://${host}/v1/ws`), "token: no token");
      const wrong = await troubleAt(its, share, `ws://${host}/ws`);
      assert.equal(wrong, `path: ${host} answers, but not at /ws: a gateway's path is /v1/ws`);
      const plain = await troubleAt(its, share, `wss://${host}/v1/ws`);
      assert.match(plain, /^tls: .* its certificate is not trusted, or it has no TLS$/);
      const nobody = await troubleAt(its, share, "ws://gateway.invalid/v1/ws");
      assert.match(nobody, /^gateway: nothing answers at gateway\.invalid: .*, is the name right\?$/);
      const proxy = createServer((_, reply) => reply.setHeader("Access-Control-Allow-Origin", "*").writeHead(404).end());
      await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
      const dropped = await troubleAt(its, share, `ws://127.0.0.1:${proxy.address().port}/v1/ws`);
      proxy.close();
      assert.match(dropped, /^proxy: .* opens no WebSocket/);
      rmSync(folder, { recursive: true, force: true });
    },
    { auth },
  );
}

detail("a page without a network is told that there is none", async (its) => {
  const profile = await its.profile();
  const tab = await its.tab({ profile, share: false, backoff: { baseMs: 1, capMs: 1 } });
  await tab.waitForState("live");
  await profile.setOffline(true);
  await its.network.cut();
  // Chromium makes attempts last the longer the more have failed: `offline` is a moment between two.
  await tab.waitFor(() => states.includes("offline") && client.trouble?.cause === "route");
  await profile.setOffline(false);
  await its.network.restore();
  await tab.waitForState("live");
  assert.equal(await tab.page.evaluate(() => client.trouble), null);
  await its.network.cut(); // and what looks for causes, which could not be loaded above, is loaded now
  await tab.waitFor(() => client.trouble?.cause === "gateway");
});
