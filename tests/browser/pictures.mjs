// pictures.mjs -- takes the pictures of web/README.md:  node --test tests/browser/pictures.mjs

import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { scene } from "./support/scene.mjs";
import { states } from "./support/states.mjs";

const folder = process.env.PICTURES ?? fileURLToPath(new URL("../../web/pictures/", import.meta.url));
await mkdir(folder, { recursive: true });

const desk = { viewport: { width: 1120, height: 720 } };
const tall = { viewport: { width: 1120, height: 980 } };
const phone = { viewport: { width: 390, height: 760 }, hasTouch: true, isMobile: true };
const pictures = {
  answer: ["answer", tall],
  working: ["working", { ...desk, colorScheme: "dark" }],
  question: ["question", desk],
  tray: ["tray", desk],
  reconnecting: ["reconnecting", { ...desk, colorScheme: "dark" }],
  "catching-up": ["catchingUp", desk],
  inspector: ["inspector", desk],
  "phone-empty": ["empty", phone],
  "phone-working": ["working", phone],
  "phone-question": ["question", { ...phone, colorScheme: "dark" }],
  failed: ["failed", desk],
  order: ["order", { ...desk, colorScheme: "dark" }],
  empty: ["empty", desk],
  files: ["files", desk],
  "phone-files": ["files", phone],
  schedules: ["schedules", { ...desk, colorScheme: "dark" }],
  "phone-schedules": ["schedules", phone],
  formulae: ["formulae", desk],
  connection: ["connection", { ...desk, colorScheme: "dark" }],
};

for (const [name, [state, options]] of Object.entries(pictures)) {
  scene(name, async (its) => {
    const { page } = await states[state](its, { ...options, reducedMotion: "reduce" });
    await page.screenshot({ path: `${folder}/${name}.png`, animations: "disabled" });
  });
}
