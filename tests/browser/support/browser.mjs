// browser.mjs -- one Chromium for all tests of a file: the headless shell, which is cheap to start, or
// the one that CHROMIUM names.

import { test } from "node:test";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell";
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--js-flags=--expose-gc", // some tests weigh the heap
];

let launched = null;
test.after(async () => (await launched)?.close());

/** The browser, launched by the first who asks. */
export const browser = () => (launched ??= chromium.launch({ executablePath: CHROMIUM, args: FLAGS }));
