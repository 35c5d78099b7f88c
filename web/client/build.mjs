// build.mjs -- dist/: the modules and their types, as bundlers and browsers take them; and dist/cjs/ for `require`.

import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

rmSync(at("dist"), { recursive: true, force: true });
execFileSync(process.execPath, [at("node_modules/typescript/bin/tsc"), "-p", at("tsconfig.json")], {
  stdio: "inherit",
});

/** What is loaded only when it is used stays the one module that it is. */
const lazy = {
  name: "lazy",
  setup(its) {
    its.onResolve({ filter: /^\.\/(shared|faults)\.js$/ }, ({ path }) => ({ path: `.${path}`, external: true }));
  },
};
await build({
  entryPoints: ["index", "react", "vue", "svelte", "solid", "testing"].map((name) => at(`src/${name}.ts`)),
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
