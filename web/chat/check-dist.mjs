// check-dist.mjs -- fails when dist/ differs from a build of the sources.  It builds into its own
// folder.

import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";

// Bytes, compressed: of the page, and of the files that are fetched for the first formula.
const MOST = { page: 250 * 1024, formulae: 350 * 1024 };

const root = fileURLToPath(new URL(".", import.meta.url));
const made = await mkdtemp(join(tmpdir(), "holdfast-dist-"));

async function filesOf(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  const read = async (file) => [file.slice(folder.length + 1), await readFile(file)];
  return new Map(await Promise.all(files.sort().map(read)));
}

try {
  await build({ root, logLevel: "error", build: { outDir: made, emptyOutDir: true } });
  const [kept, fresh] = await Promise.all([filesOf(join(root, "dist")), filesOf(made)]);
  const differing = [...new Set([...kept.keys(), ...fresh.keys()])].filter(
    (name) => !kept.has(name) || !fresh.has(name) || !kept.get(name).equals(fresh.get(name)),
  );
  const size = { page: 0, formulae: 0 };
  for (const [name, bytes] of fresh) size[/katex/i.test(name) ? "formulae" : "page"] += gzipSync(bytes, { level: 9 }).length;
  console.log(`${fresh.size} files, compressed ${size.page} bytes and ${size.formulae} for formulae`);
  for (const part in MOST) if (size[part] > MOST[part]) throw new Error(`${part}: more than ${MOST[part]} bytes`);
  if (differing.length > 0) {
    throw new Error(`not what the sources give; run npm run build in web/chat: ${differing.join(", ")}`);
  }
} finally {
  await rm(made, { recursive: true, force: true });
}
