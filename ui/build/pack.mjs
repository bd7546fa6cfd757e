// Puts a build where the hub embeds it, with text compressed once and for all. The text
// itself is left out: the hub makes it from the gzip for those few who take no encoding.
//   node pack.mjs FROM TO
// The result depends on the files of FROM only.
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const [from, to] = process.argv.slice(2);
const text = /\.(js|css|svg|json|map|webmanifest)$/;
// What compression saves below this is less than the header that tells of it.
const worthIt = 1024;

mkdirSync(to, { recursive: true });
for (const name of readdirSync(to)) {
  if (name !== "README") rmSync(join(to, name), { recursive: true });
}
cpSync(from, to, { recursive: true, filter: (path) => !path.endsWith("/.vite") });
for (const name of readdirSync(to, { recursive: true })) {
  const path = join(to, name);
  if (!text.test(name)) continue;
  const data = readFileSync(path);
  if (data.length < worthIt) continue;
  writeFileSync(
    path + ".br",
    brotliCompressSync(data, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: 11,
        [constants.BROTLI_PARAM_SIZE_HINT]: data.length,
      },
    }),
  );
  writeFileSync(path + ".gz", gzipSync(data, { level: 9 }));
  rmSync(path);
}
