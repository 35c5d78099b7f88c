// network.test.mjs -- the chat page when networks, tabs and gateways come and go.
//
// Written like chat.test.mjs: puppets as agents, and the page must say what the journal says.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { Gateway } from "./support/gateway.mjs";
import { tasksOf } from "./support/journal.mjs";
import { detail, scene } from "./support/scene.mjs";

/** In the page: its connection is its own, where clock and sockets can be played with. */
const alone = () => delete window.SharedWorker;

/** In the page: what it would have kept of a guest. */
function keepGuest(token) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open("holdfast", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("kept");
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const kept = opening.result.transaction("kept", "readwrite").objectStore("kept");
      const key = `${location.origin.replace("http", "ws")}/v1/ws  guest`;
      kept.put(token, key).onsuccess = () => {
        opening.result.close();
        resolve();
      };
    };
  });
}

scene("the network is cut in mid-answer and comes back", async (its) => {
  const { chat, puppet } = await its.asked();
  for (const text of [" deep", " indeed", ", fathoms"]) {
    await its.network.cut();
    await chat.waitForState("waiting", "offline");
    puppet.say(text);
    await its.network.restore();
    await chat.waitForState("live");
    puppet.say(" and");
  }
  puppet.exit();
  await chat.waitForStatus("completed");
  assert.equal(await chat.textOf(".turn .answer"), "Deep – very deep and indeed and, fathoms and");
  await chat.assertIsJournal();
});

detail("an answer that ends while the network is down is there afterwards", async (its) => {
  const { chat, puppet } = await its.asked();
  const { token } = await chat.guest();
  await its.network.cut();
  puppet.say(" deep");
  puppet.exit();
  const id = chat.conversationId();
  while ((await tasksOf(its.gateway.port, token, id))[0].status !== "completed");
  await its.network.restore();
  await chat.waitForStatus("completed");
  assert.equal(await chat.textOf(".turn .answer"), "Deep – very deep");
  await chat.assertIsJournal();
});

/** Notes, in the page, what the line of the connection says: its state, and what is read out of it. */
function noteLine() {
  window.lines = [];
  const note = () => {
    const box = document.querySelector("#connection");
    const line = `${box?.dataset.state}: ${box?.querySelector("[role=status]").textContent}`;
    if (window.lines.at(-1) !== line) window.lines.push(line);
  };
  note();
  new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
}

detail("attempts in a row are one wait, and its line stays the same over all of them", async (its) => {
  const { chat, puppet } = await its.asked();
  await chat.page.evaluate(noteLine);
  await its.network.cut();
  await chat.page.waitForSelector("#why-not"); // after the third attempt
  await its.network.restore();
  await chat.page.evaluate(() => dispatchEvent(new Event("online")));
  await chat.waitForState("live");
  assert.deepEqual(await chat.page.evaluate(() => window.lines), ["live: Live", "waiting: Reconnecting", "live: Live"]);

  // The same without a network at all, as the browser tells a page that shares its connection with nobody.
  const profile = await its.profile();
  const alone = await its.chat({ profile, hash: "?fault=latencyMs:1" });
  await alone.waitForState("live");
  await alone.page.evaluate(noteLine);
  await profile.setOffline(true);
  await its.network.cut();
  await alone.page.waitForSelector("#why-not");
  await its.network.restore();
  await profile.setOffline(false);
  await alone.waitForState("live");
  assert.deepEqual(await alone.page.evaluate(() => window.lines), ["live: Live", "offline: Offline", "live: Live"]);
  puppet.exit();
});

scene("a half-open connection is found when the page wakes", async (its) => {
  const { chat, puppet } = await its.asked();
  its.network.freeze();
  puppet.say(" deep");
  await chat.page.evaluate(() => dispatchEvent(new Event("online")));
  await chat.waitForText("Deep – very deep");
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.assertIsJournal();
});

detail("a half-open connection is found by a page that only waits", async (its) => {
  const { chat, puppet } = await its.asked({
    prepare: async (page) => {
      await page.addInitScript(alone);
      await page.clock.install();
    },
  });
  its.network.freeze();
  puppet.say(" deep");
  await chat.page.clock.fastForward(30_000); // silence: it pings
  await chat.page.clock.fastForward(5_000); // no pong
  await chat.page.clock.fastForward(5_000); // the wait before the next attempt
  await chat.waitForText("Deep – very deep");
  puppet.exit();
  await chat.waitForStatus("completed");
  await chat.assertIsJournal();
});

scene("a question asked without a network is asked when it is back", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  await its.network.cut();
  await chat.ask("Anybody there?");
  assert.equal(await chat.textOf(".turn .asked"), "Anybody there?");
  const url = chat.page.url();
  await chat.page.goto("about:blank"); // and then the user turns to something else
  await its.network.restore();
  await chat.page.goto(url);
  const puppet = await its.stage.puppet();
  assert.equal(puppet.run.input, "Anybody there?");
  puppet.exit();
});

scene("a question whose reply was lost starts nothing twice", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  its.network.deafen();
  await chat.ask("Once?");
  const puppet = await its.stage.puppet();
  puppet.say("Once", " and");
  await its.network.cut();
  await its.network.restore();
  await chat.waitForText("Once and");
  puppet.say(" for all");
  puppet.exit();
  await chat.waitForStatus("completed");
  assert.equal(await chat.textOf(".turn .answer"), "Once and for all");
  assert.deepEqual(await chat.allTexts(".turn .asked"), ["Once?"]);
  const { token } = await chat.guest();
  assert.equal((await tasksOf(its.gateway.port, token, chat.conversationId())).length, 1);
  await chat.assertIsJournal();
});

scene("the page is reloaded in mid-answer", async (its) => {
  const { chat, puppet } = await its.asked();
  puppet.emit("thinking", { text: "hm" });
  await chat.page.reload();
  await chat.waitForText("Deep – very");
  puppet.say(" deep");
  await chat.waitForText("Deep – very deep");
  assert.equal(await chat.textOf(".turn .thoughts"), "hm");
  await chat.page.reload();
  puppet.say(" indeed");
  puppet.exit();
  await chat.waitForStatus("completed");
  assert.equal(await chat.textOf(".turn .answer"), "Deep – very deep indeed");
  assert.deepEqual(await chat.allTexts(".turn .asked"), ["How deep is the sea?"]);
  await chat.assertIsJournal();
});

detail("a second tab opens the conversation and follows along", async (its) => {
  const profile = await its.profile();
  const { chat, puppet } = await its.asked({ profile });
  const second = await its.chat({ profile, hash: `#${chat.conversationId()}` });
  await second.waitForText("Deep – very");
  puppet.say(" deep");
  await Promise.all([chat.waitForText("Deep – very deep"), second.waitForText("Deep – very deep")]);
  puppet.exit();
  await Promise.all([chat.waitForStatus("completed"), second.waitForStatus("completed")]);

  // And the other way: asked there, seen here, from the first word.
  await second.ask("And the sky?");
  const other = await its.stage.puppet();
  other.say("High", "er");
  await chat.waitForText("Higher", ".turn:nth-of-type(2) .answer");
  other.exit();
  await chat.page.waitForSelector(".turn:nth-of-type(2)[data-status=completed]");
  assert.deepEqual(await chat.allTexts(".turn .asked"), ["How deep is the sea?", "And the sky?"]);
  await second.page.waitForSelector(".turn:nth-of-type(2)[data-status=completed]");
  await Promise.all([chat.assertIsJournal(), second.assertIsJournal()]);
});

detail("two tabs that start at once are one guest", async (its) => {
  const profile = await its.profile();
  const chats = await Promise.all([its.chat({ profile }), its.chat({ profile })]);
  await chats[0].ask("Who am I?");
  const puppet = await its.stage.puppet();
  await Promise.all(chats.map((chat) => chat.page.waitForSelector("#conversations .running")));
  puppet.exit();
  await chats[0].waitForStatus("completed");
});

scene("a cancel pressed without a network is carried out", async (its) => {
  const { chat } = await its.asked();
  await its.network.cut();
  await chat.waitForState("waiting", "offline");
  await chat.page.click("#stop");
  await chat.waitForText("Stopping…", ".turn .told .marks");
  await its.network.restore();
  await chat.waitForStatus("cancelled");
  await chat.assertIsJournal();
});

scene("the gateway is killed and started again", async (its) => {
  const { chat } = await its.asked();
  await its.gateway.stop("SIGKILL");
  await chat.waitForState("waiting", "offline");
  assert.equal(await chat.textOf(".turn .answer"), "Deep – very");
  await its.gateway.start();
  await chat.waitForStatus("failed");
  assert.equal(await chat.textOf(".turn .answer"), "Deep – very");
  assert.equal(
    await chat.textOf(".turn .told .ending .sentence"),
    "The gateway was restarted while this ran. What had been said is kept.",
  );
  await chat.assertIsJournal();

  await chat.ask("And now?");
  const puppet = await its.stage.puppet();
  puppet.say("Now it goes on.");
  puppet.exit();
  await chat.waitForStatus("completed");
  assert.equal((await chat.taskIds()).length, 2);
  await chat.assertIsJournal();
});

/** A model that says that and hangs, until `then` is set: it is said, and the answer ends. */
async function modelThatHangs(said) {
  const model = { then: "" };
  const chunk = (choice) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: null, ...choice }] })}\n\n`;
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(chunk({ delta: { content: model.then || said } }));
    if (model.then) response.end(`${chunk({ finish_reason: "stop" })}data: [DONE]\n\n`);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  model.url = `http://127.0.0.1:${server.address().port}/v1`;
  model.close = () => (server.closeAllConnections(), server.close());
  return model;
}

detail("what a restart withdraws goes in one frame, and one quiet line says so", async (its) => {
  const model = await modelThatHangs("Half an an");
  try {
    await its.reconfigure({
      models: [{ name: "m", base_url: model.url, model: "m" }],
      agents: [{ name: "thinker", kind: "react", model: "m", default: true }],
    });
    const chat = await its.chat();
    await chat.ask("How deep is the sea?");
    await chat.waitForText("Half an an");
    await chat.page.evaluate(() => {
      window.seen = [];
      const look = () => {
        const text = document.querySelector(".turn .answer")?.textContent.trim() ?? "";
        if (text !== window.seen.at(-1)) window.seen.push(text);
        requestAnimationFrame(look);
      };
      look();
    });
    model.then = "A whole one";
    await its.gateway.stop("SIGKILL");
    await chat.waitForState("waiting", "offline");
    await its.gateway.start();
    await chat.waitForStatus("completed");
    await chat.waitForText("A whole one");
    const [before, ...after] = await chat.page.evaluate(() => window.seen);
    assert.equal(before, "Half an an");
    after.forEach((text, at) => assert.ok("A whole one".startsWith(text) && text.startsWith(after[at - 1] ?? ""), `${after}`));
    assert.equal((await chat.allTexts(".turn .told")).join("").split("Went on after a restart").length, 2);
    await chat.assertIsJournal();
  } finally {
    model.close();
  }
});

detail("the gateway is stopped as planned and started again", async (its) => {
  const { chat } = await its.asked();
  await its.gateway.stop("SIGTERM");
  await chat.waitForStatus("failed");
  await chat.waitForState("waiting", "offline");
  assert.equal(
    await chat.textOf(".turn .told .ending .sentence"),
    "The gateway was restarted while this ran. What had been said is kept.",
  );
  await its.gateway.start();
  await chat.waitForState("live");
  assert.equal(await chat.textOf(".turn .answer"), "Deep – very");
  await chat.assertIsJournal();
});

detail("ten thousand tokens arrive whole, over a cut, and in few steps", async (its) => {
  const chat = await its.chat();
  await chat.waitForState("live");
  await chat.page.selectOption("#agent", "slow");
  await chat.ask("10000 0.1");
  await chat.page.waitForSelector(".turn .answer:not(:empty)");
  await chat.page.evaluate(() => {
    const count = (records) => (window.steps = (window.steps ?? 0) + records.length);
    const all = { subtree: true, childList: true, characterData: true };
    new MutationObserver(count).observe(document.querySelector(".turn .answer"), all);
  });
  await chat.page.waitForFunction(
    () => document.querySelector(".answer").textContent.length > 5000,
  );
  await its.network.cut();
  await its.network.restore();
  const numbers = Array.from({ length: 10_000 }, (_, at) => `${at + 1} `).join("");
  await chat.waitForStatus("completed");
  await chat.waitForText(numbers.trim()); // much of it is drawn in the gaps between other work
  const steps = await chat.page.evaluate(() => window.steps);
  assert.ok(steps < 2_000, `${steps} steps`); // at most one a frame
  await chat.assertIsJournal();
});

detail("a guest whom the gateway does not know becomes a new one", async (its) => {
  const elsewhere = new Gateway({});
  await elsewhere.start();
  const reply = await fetch(`http://127.0.0.1:${elsewhere.port}/v1/guest`, { method: "POST" });
  const guest = await reply.json();
  await elsewhere.remove();

  const prepare = async (page) => {
    const blank = `http://127.0.0.1:${its.network.port}/blank`;
    const body = '<link rel="icon" href="data:,">';
    await page.route(blank, (route) => route.fulfill({ contentType: "text/html", body }));
    await page.goto(blank);
    await page.evaluate(keepGuest, guest.token);
  };
  const chat = await its.chat({ prepare });
  await chat.waitForState("live");
  assert.notEqual((await chat.guest()).owner, guest.owner);
});

scene("close codes that end it end it, and others do not", async (its) => {
  const closes = [1001, 4413, 4408, 1008];
  let opened = 0;
  const prepare = async (page) => {
    await page.addInitScript(alone);
    await page.routeWebSocket(/\/v1\/ws$/, (socket) => {
      const code = closes[opened++];
      socket.onMessage((text) => {
        if (JSON.parse(text).type !== "hello") return;
        if (code === 1001) socket.send(JSON.stringify({ type: "goaway", retry_after_ms: 50 }));
        socket.close({ code });
      });
    });
  };
  const chat = await its.chat({ prepare });
  await chat.waitForState("closed");
  assert.equal(opened, closes.length);
  assert.equal(await chat.textOf("#connection-text"), "Closed by the gateway");
  assert.deepEqual(await chat.allTexts("#reconnect"), ["Try again"]);
});
