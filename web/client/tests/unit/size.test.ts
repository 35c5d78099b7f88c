import { build } from "esbuild";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";

const sizeOf = async (entry: string, external: string[]) => {
  const { outputFiles } = await build({
    entryPoints: [new URL(`../../src/${entry}`, import.meta.url).pathname],
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    write: false,
    external,
  });
  return gzipSync(outputFiles[0]!.contents, { level: 9 }).length;
};

it("all that a page loads is less than 10 KiB", async () => {
  expect(await sizeOf("index.ts", ["./shared.js", "./faults.js", "./trouble.js"])).toBeLessThan(10 * 1024);
});

it.each(["vue", "svelte", "solid"])("what %s wants is less than 1 KiB", async (name) => {
  expect(await sizeOf(`${name}.ts`, ["vue", "solid-js"])).toBeLessThan(1024);
});

it.each(["branches", "search", "export", "verify"])("what %s wants is less than 1 KiB", async (name) => {
  expect(await sizeOf(`${name}.ts`, [])).toBeLessThan(1024);
});

it("what sharing wants is less than 2 KiB", async () => {
  expect(await sizeOf("sharing.ts", [])).toBeLessThan(2048);
});

it("the hooks are less than 1 KiB", async () => {
  expect(await sizeOf("react.ts", ["react"])).toBeLessThan(1024);
});
