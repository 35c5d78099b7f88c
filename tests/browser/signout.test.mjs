// signout.test.mjs -- who signs out of a browser that others use leaves nothing in it.

import assert from "node:assert/strict";
import { detail, scene } from "./support/scene.mjs";
import { authWith, tokenOf } from "./support/tokens.mjs";

/** A tab of somebody who has signed in by a token. */
async function tabOf(its, profile, name) {
  const chat = await its.chat({ profile });
  await chat.page.fill("#sign-in input", tokenOf(name));
  await chat.page.press("#sign-in input", "Enter");
  await chat.waitForState("live");
  return chat;
}

async function signOut({ page }) {
  await page.click("#sign-out");
  await page.click("#sign-out-dialog button:text-is('Sign out')");
}

/** All that is stored: in this tab, and in the browser. */
const keptIn = ({ page }) =>
  page.evaluate(async () => {
    const read = (name) =>
      new Promise((resolve) => {
        const opening = indexedDB.open(name);
        opening.onupgradeneeded = () => opening.result.createObjectStore("kept");
        opening.onsuccess = () => {
          const keys = opening.result.transaction("kept").objectStore("kept").getAllKeys();
          keys.onsuccess = () => (opening.result.close(), resolve(keys.result));
        };
      });
    const stored = [...(await read("holdfast")), ...(await read("holdfast-files"))];
    return { tab: Object.keys(sessionStorage), browser: Object.keys(localStorage).map((name) => name.replace(/out\..*/, "out")), stored };
  });

const asked = "Not for those who come after me";

scene("who signs out is signed out in all tabs, and nothing that was written stays", async (its) => {
  await its.reconfigure({ auth: await authWith(its.gateway.folder) });
  const profile = await its.profile();
  const first = await tabOf(its, profile, "ada");
  const second = await tabOf(its, profile, "ada");
  const other = await tabOf(its, profile, "bob");
  assert.equal(await first.page.getAttribute("#sign-out", "title"), "Signed in as ada");
  for (const chat of [second, other]) await chat.page.fill("#message", "a draft");
  await second.page.setInputFiles("#composer input[type=file]", { name: "depths.txt", mimeType: "text/plain", buffer: Buffer.from("deep") });
  await second.page.waitForSelector("#composer .file[data-state=there]");
  await its.network.cut();
  for (const chat of [second, other]) {
    await chat.waitForState("waiting", "offline");
    await chat.ask(`${asked}, said ${chat === other ? "bob" : "ada"}`);
    await chat.page.waitForSelector(".on-its-way");
  }
  await first.ask(`${asked}, said ada again`);
  await first.page.click("#sign-out");
  await first.waitForText(": 1 message among it", "#sign-out-dialog strong");
  // Each leaves for the page as it is for somebody new, in whose place something else stands for now.
  const place = `http://127.0.0.1:${its.network.port}/`;
  await profile.route(place, (route) => route.fulfill({ contentType: "text/html", body: "<p id=left>Later" }));
  await first.page.click("#sign-out-dialog button:text-is('Sign out')");
  for (const { page } of [first, second]) await page.waitForSelector("#left");
  await profile.unroute(place);
  await its.network.restore();
  for (const chat of [first, second]) {
    await chat.page.goto(place);
    await chat.waitForText("Sign in is needed", "#sign-in h2");
  }
  for (const chat of [first, second]) {
    const { tab, browser, stored } = await keptIn(chat);
    assert.deepEqual(tab.filter((name) => name !== "holdfast.new"), []);
    assert.deepEqual(browser, ["holdfast.signed-out"]);
    assert.deepEqual(stored.filter((key) => !/ bob asked /.test(key)), []);
    assert.equal(new URL(chat.page.url()).hash, "");
  }
  await other.page.evaluate(() => dispatchEvent(new Event("online")));
  await other.waitForState("live");
  const { run } = await its.stage.puppet(); // bob's, and nothing of ada's before it
  assert.equal(run.input, `${asked}, said bob`);
  await other.waitForStatus("running");
  assert.equal(await other.page.locator("#sign-out").count(), 1);
});

detail("files that others of this browser have at the field stay when one signs out", async (its) => {
  await its.reconfigure({ auth: await authWith(its.gateway.folder) });
  const profile = await its.profile();
  const [ada, bob] = [await tabOf(its, profile, "ada"), await tabOf(its, profile, "bob")];
  for (const { page } of [ada, bob]) {
    await page.setInputFiles("#composer input[type=file]", { name: "depths.txt", mimeType: "text/plain", buffer: Buffer.from("deep") });
    await page.waitForSelector("#composer .file[data-state=there]");
  }
  assert.equal((await keptIn(bob)).stored.filter((key) => /^[0-9a-f]{32}$/.test(key)).length, 2);
  await signOut(ada);
  await ada.waitForText("Sign in is needed", "#sign-in h2");
  assert.equal((await keptIn(bob)).stored.filter((key) => /^[0-9a-f]{32}$/.test(key)).length, 1);
  await bob.page.reload();
  await bob.page.waitForSelector("#composer .file[data-state=there]");
});

detail("a tab that slept while its user signed out forgets what was typed when it is looked at", async (its) => {
  const auth = { ...(await authWith(its.gateway.folder)), cookie: "session" };
  await its.reconfigure({ auth, page: { sign_out_url: "/leave" } });
  const profile = await its.profile();
  await profile.addCookies([{ name: "session", value: tokenOf("ada"), domain: "127.0.0.1", path: "/", httpOnly: true }]);
  await profile.route("**/leave", (route) => route.fulfill({ contentType: "text/html", body: "<p id=left>Good bye" }));
  /** The browser tells it of nothing that is stored. */
  const prepare = (page) => page.addInitScript(() => addEventListener("storage", (event) => event.stopImmediatePropagation(), true));
  const [first, asleep] = [await its.chat({ profile }), await its.chat({ profile, prepare })];
  for (const chat of [first, asleep]) await chat.page.waitForSelector("#sign-out");
  await asleep.page.fill("#message", asked);
  await signOut(first);
  await first.page.waitForSelector("#left");
  const isKept = () => asleep.page.evaluate((asked) => JSON.stringify({ ...sessionStorage }).includes(asked), asked);
  assert.equal(await isKept(), true);
  await asleep.page.evaluate(() => dispatchEvent(new Event("focus")));
  await asleep.page.waitForSelector("#left");
  assert.equal(await isKept(), false);
});

detail("a tab that is opened again after its user has signed out is signed out", async (its) => {
  await its.reconfigure({ auth: await authWith(its.gateway.folder) });
  const profile = await its.profile();
  const chat = await tabOf(its, profile, "ada");
  const kept = await chat.page.evaluate(() => Object.entries(sessionStorage));
  await signOut(chat);
  await chat.waitForText("Sign in is needed", "#sign-in h2");
  const prepare = (page) =>
    page.addInitScript((kept) => {
      if (window.name === "opened") return;
      window.name = "opened"; // once: the browser brings back what a closed tab had
      for (const [name, value] of kept) sessionStorage.setItem(name, value);
    }, kept);
  const again = await its.chat({ profile, prepare });
  await again.waitForText("Sign in is needed", "#sign-in h2");
  assert.equal(await again.page.locator("#sign-out").count(), 0);
  await again.page.fill("#sign-in input", tokenOf("ada"));
  await again.page.press("#sign-in input", "Enter");
  await again.waitForState("live"); // and in again
  await again.page.reload();
  await again.waitForState("live");
});

detail("who signs in where somebody else's token has ended sees nothing of what that one typed", async (its) => {
  await its.reconfigure({ auth: await authWith(its.gateway.folder) });
  const profile = await its.profile();
  const chat = await tabOf(its, profile, "ada");
  const signIn = async (name) => {
    await chat.page.evaluate(() => sessionStorage.setItem("holdfast.token", `${sessionStorage.getItem("holdfast.token")}x`));
    await chat.page.reload(); // with a token that is good no more
    await chat.waitForText("This token is not good", "#sign-in h2");
    await chat.page.fill("#sign-in input", tokenOf(name));
    await chat.page.press("#sign-in input", "Enter");
    await chat.waitForState("live");
  };
  await chat.page.fill("#message", asked);
  await signIn("ada");
  assert.equal(await chat.page.inputValue("#message"), asked);
  await signIn("bob");
  assert.equal(await chat.page.inputValue("#message"), "");
  assert.ok(!JSON.stringify(await chat.page.evaluate(() => ({ ...sessionStorage }))).includes(asked));
});

detail("who came by a cookie signs out where the operator says, and a guest has nothing to sign out of", async (its) => {
  const guest = await its.chat();
  await guest.waitForState("live");
  assert.equal(await guest.page.locator("#sign-out").count(), 0);
  const auth = { ...(await authWith(its.gateway.folder)), cookie: "session" };
  await its.reconfigure({ auth, page: { sign_out_url: "/leave" } });
  const profile = await its.profile();
  await profile.addCookies([{ name: "session", value: tokenOf("ada"), domain: "127.0.0.1", path: "/", httpOnly: true }]);
  await profile.route("**/leave", (route) =>
    route.fulfill({ contentType: "text/html", headers: { "Set-Cookie": "session=; Max-Age=0; Path=/" }, body: "<p id=left>Good bye" }),
  );
  const [first, second] = [await its.chat({ profile }), await its.chat({ profile })];
  for (const chat of [first, second]) await chat.page.waitForSelector("#sign-out");
  await signOut(first);
  for (const chat of [first, second]) await chat.page.waitForSelector("#left");
  await second.page.goto(`http://127.0.0.1:${its.network.port}/`);
  await second.waitForText("Sign in is needed", "#sign-in h2");
});

scene("who comes by another cookie sees nothing of what the one before typed", async (its) => {
  await its.reconfigure({ auth: { ...(await authWith(its.gateway.folder)), cookie: "session" } });
  const profile = await its.profile();
  const cookie = (name) => profile.addCookies([{ name: "session", value: tokenOf(name), domain: "127.0.0.1", path: "/", httpOnly: true }]);
  await cookie("ada");
  const chat = await its.chat({ profile });
  await chat.waitForState("live");
  await chat.page.fill("#message", asked);
  await chat.page.reload();
  await chat.waitForState("live");
  assert.equal(await chat.page.inputValue("#message"), asked);
  await cookie("bob");
  await its.network.cut();
  await chat.waitForState("waiting", "offline");
  await its.network.restore();
  await chat.page.waitForFunction(() => document.querySelector("#message")?.value === "");
  await chat.waitForState("live");
  assert.ok(!JSON.stringify(await chat.page.evaluate(() => ({ ...sessionStorage }))).includes(asked));
});
