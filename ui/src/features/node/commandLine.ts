// commandLine writes arguments as one would type them in a POSIX shell, so that
// it is seen where each begins and ends.
export function commandLine(argv: readonly string[]): string {
  return argv.map((a) => (/^[\w@%+=:,./-]+$/.test(a) ? a : `'${a.replaceAll("'", "'\\''")}'`)).join(" ");
}
