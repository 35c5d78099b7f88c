import { defineConfig } from "vitest/config";

export default defineConfig({
  // In Node the package resolves to its server build, where nothing changes.
  resolve: { alias: { "solid-js": new URL("node_modules/solid-js/dist/solid.js", import.meta.url).pathname } },
  test: {
    include: ["tests/unit/**/*.test.{ts,tsx}"],
    pool: "threads",
    maxWorkers: 2,
    testTimeout: 30_000, // a machine may be busy; no test waits for a time
    restoreMocks: true,
    unstubGlobals: true,
  },
});
