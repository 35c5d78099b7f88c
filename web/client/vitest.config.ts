import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/unit/**/*.test.{ts,tsx}"],
    pool: "threads",
    maxWorkers: 2,
    testTimeout: 30_000, // a machine may be busy; no test waits for a time
    restoreMocks: true,
    unstubGlobals: true,
  },
});
