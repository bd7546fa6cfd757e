// Compiles src to dist, which is published: node build.mjs [OUT]
import { spawnSync } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "dist"));
const typescript = createRequire(import.meta.url).resolve("typescript/package.json");
rmSync(out, { recursive: true, force: true });
const tsc = spawnSync(process.execPath, [join(dirname(typescript), "bin/tsc"), "-p", "tsconfig.build.json", "--outDir", out], { cwd: here, stdio: "inherit" });
if (tsc.status !== 0) process.exit(tsc.status ?? 1);
// The licence of the repository is that of the package.
if (process.argv[2] === undefined) copyFileSync(join(here, "../../LICENSE"), join(here, "LICENSE"));
