// partsOf splits a reference into the repository and the digest.
export function partsOf(reference: string): { repository: string; digest: string } {
  const at = reference.indexOf("@");
  return at < 0 ? { repository: reference, digest: "" } : { repository: reference.slice(0, at), digest: reference.slice(at + 1) };
}

// shortDigest returns the beginning of a digest, as tools of images show it.
export const shortDigest = (digest: string) => digest.replace(/^sha256:/, "").slice(0, 12);

// linesOf reads a list with one entry per line; spaces and commas separate entries, too.
export const linesOf = (text: string) => text.split(/[\s,]+/).filter(Boolean);
