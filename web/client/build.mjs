// build.mjs -- dist/: the modules and their types, for bundlers and browsers; and dist/cjs/ for
// `require`.

import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

rmSync(at("dist"), { recursive: true, force: true });
execFileSync(process.execPath, [at("node_modules/typescript/bin/tsc"), "-p", at("tsconfig.json")], {
  stdio: "inherit",
});

const { exports } = JSON.parse(readFileSync(at("package.json"), "utf8"));
const entries = Object.keys(exports).flatMap((name) => (name.endsWith(".json") ? [] : [name.slice(2) || "index"]));

/** A module that is loaded on demand stays a module of its own. */
const lazy = {
  name: "lazy",
  setup(its) {
    its.onResolve({ filter: /^\.\/(shared|faults|trouble)\.js$/ }, ({ path }) => ({ path: `.${path}`, external: true }));
  },
};
await build({
  entryPoints: entries.map((name) => at(`src/${name}.ts`)),
  outdir: at("dist/cjs"),
  bundle: true,
  format: "cjs",
  target: "es2022",
  sourcemap: true,
  external: ["react", "vue", "solid-js"],
  plugins: [lazy],
});
for (const file of readdirSync(at("dist")).filter((name) => name.endsWith(".d.ts"))) {
  cpSync(at(`dist/${file}`), at(`dist/cjs/${file}`));
}
writeFileSync(at("dist/cjs/package.json"), '{ "type": "commonjs" }\n');
