import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import tailwindcss from "@tailwindcss/vite";
import { defineConfig } from "vitest/config";

const path = (to: string) => fileURLToPath(new URL(to, import.meta.url));

// The hub that `npm run dev` shows: a running `deckhand up`.
const hub = process.env.DECKHAND_HUB_URL ?? "http://127.0.0.1:7800";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  // Relative: index.html's <base>, which the hub fills in, says where it is.
  base: "./",
  // The SDK is compiled from its source, and has the only copy of what is generated from the
  // protos. Its imports resolve to the console's modules: sdk/ts/node_modules is a link to them.
  resolve: {
    alias: { "@deckhand/sdk": path("../sdk/ts/src/index.ts"), "@/gen/deckhand": path("../sdk/ts/src/gen/deckhand"), "@": path("./src") },
  },
  build: {
    outDir: "../.build/ui",
    emptyOutDir: true,
    manifest: true, // for scripts/bench ui
    target: "es2023",
    reportCompressedSize: false,
    chunkSizeWarningLimit: 900, // what counts is measured by scripts/bench ui
    assetsInlineLimit: 0, // the policy forbids most data: URLs
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        entryFileNames: "assets/app-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/[name]-[hash][extname]",
      },
    },
  },
  server: {
    fs: { allow: [".."] }, // the SDK, and the personas that the console offers
    proxy: { "^/(deckhand\\.v1\\.|terminals|browsers|v1/|openapi\\.json)": { target: hub, ws: true, changeOrigin: true } },
  },
  test: {
    environment: "jsdom",
    pool: "threads", // a third less work than processes
    isolate: false, // files share what they import: half of the work. Each still has a document of its own
    maxWorkers: "100%", // nothing else runs beside them
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/test/setup.ts"],
    restoreMocks: true,
    // As long as a slow machine may take: nothing here is about time.
    testTimeout: 300_000,
    retry: process.env.CI ? 1 : 0, // which is told
  },
});
