// vite.config.ts -- builds dist/, which the gateway embeds.  The same sources give the same bytes.

import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** Every browser that can show the page supports woff2. */
const onlyWoff2 = {
  name: "only-woff2",
  enforce: "pre" as const,
  transform: (code: string, id: string) =>
    id.includes("katex.min.css") ? code.replace(/,url\([^)]*\.(?:woff|ttf)\) format\("[a-z]+"\)/g, "") : null,
};

export default defineConfig({
  base: "./",
  plugins: [react(), onlyWoff2],
  resolve: {
    alias: {
      "@holdfast/client/branches": here("../client/src/branches.ts"),
      "@holdfast/client/sentences": here("../client/src/sentences.ts"),
      "@holdfast/client/trouble": here("../client/src/trouble.ts"),
      "@holdfast/client/search": here("../client/src/search.ts"),
      "@holdfast/client/sharing": here("../client/src/sharing.ts"),
      "@holdfast/client/export": here("../client/src/export.ts"),
      "@holdfast/client/files": here("../client/src/files.ts"),
      "@holdfast/client": here("../client/src/index.ts"),
    },
    dedupe: ["react", "react-dom"],
  },
  build: {
    target: "es2023",
    cssTarget: ["chrome123", "firefox120", "safari17.5"], // browsers that know light-dark()
    assetsInlineLimit: 0, // the page's policy allows no inlined script or font
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: [here("index.html"), here("inspector.html")],
      // Because of the hash in a name, the gateway can say that the file never changes.
      output: {
        entryFileNames: "assets/[name]-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  server: {
    proxy: {
      "/v1": { target: process.env.HOLDFAST_URL ?? "http://127.0.0.1:8080", ws: true },
      "/page.json": process.env.HOLDFAST_URL ?? "http://127.0.0.1:8080",
    },
  },
  test: { include: ["src/**/*.test.{ts,tsx}"] },
});
