// build.mjs -- dist/: the module and its types; and dist/cjs/ for `require`.

import { execFileSync } from "node:child_process";
import { cpSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

rmSync(at("dist"), { recursive: true, force: true });
execFileSync(process.execPath, [at("node_modules/typescript/bin/tsc"), "-p", at("tsconfig.json")], {
  stdio: "inherit",
});
await build({
  entryPoints: [at("src/index.ts")],
  outdir: at("dist/cjs"),
  format: "cjs",
  target: "es2022",
  sourcemap: true,
});
cpSync(at("dist/index.d.ts"), at("dist/cjs/index.d.ts"));
writeFileSync(at("dist/cjs/package.json"), '{ "type": "commonjs" }\n');
