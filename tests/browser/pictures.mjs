// pictures.mjs -- takes the pictures of docs/pictures/: each state on a desk and on a phone, light
// or dark.  web/chat/pictures runs it.

import { mkdir, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { browser } from "./support/browser.mjs";
import { scene } from "./support/scene.mjs";
import { states } from "./support/states.mjs";

const folder = process.env.PICTURES ?? fileURLToPath(new URL("../../docs/pictures/", import.meta.url));
await mkdir(folder, { recursive: true });

const QUALITY = 0.9; // of WebP: letters stay sharp, in a third of a PNG's bytes
const desk = { viewport: { width: 1120, height: 720 } };
const tall = { viewport: { width: 1120, height: 980 } };
const phone = { viewport: { width: 390, height: 760 }, hasTouch: true, isMobile: true };
const dark = (size) => ({ ...size, colorScheme: "dark" });

/** By state: the desk's picture, and the phone's where the state has one. */
const pictures = {
  empty: [desk, phone],
  answer: [tall, dark(phone)],
  working: [dark(desk), phone],
  order: [dark(desk)],
  question: [desk, dark(phone)],
  files: [desk, phone],
  schedules: [dark(desk), phone],
  dressed: [desk, dark(phone)],
  list: [desk, dark(phone)],
  search: [desk, dark(phone)],
  share: [dark(desk), phone],
  shared: [desk, dark(phone)],
  handover: [desk, dark(phone)],
  arrival: [phone],
  tray: [desk, dark(phone)],
  failed: [desk],
  signIn: [desk, phone],
  reconnecting: [dark(desk), phone],
  catchingUp: [desk],
  formulae: [desk, dark(phone)],
  inspector: [desk],
  connection: [dark(desk)],
};

/** Chromium itself makes a WebP of a PNG. */
async function smaller(png) {
  const page = await (await browser()).newPage();
  try {
    const made = await page.evaluate(
      async ([png, quality]) => {
        const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
        const canvas = new OffscreenCanvas(picture.width, picture.height);
        canvas.getContext("2d").drawImage(picture, 0, 0);
        const webp = await canvas.convertToBlob({ type: "image/webp", quality });
        return Array.from(new Uint8Array(await webp.arrayBuffer()));
      },
      [png.toString("base64"), QUALITY],
    );
    return Buffer.from(made);
  } finally {
    await page.close();
  }
}

for (const [state, sizes] of Object.entries(pictures)) {
  for (const [at, size] of sizes.entries()) {
    const name = `${at > 0 ? "phone-" : ""}${state.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    scene(name, async (its) => {
      const { page } = await states[state](its, { ...size, locale: "en-GB", reducedMotion: "reduce" });
      await writeFile(`${folder}/${name}.webp`, await smaller(await page.screenshot({ animations: "disabled" })));
    });
  }
}
