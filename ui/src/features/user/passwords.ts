// passwordProblem says why the hub would not take a password; empty for none.
export function passwordProblem(password: string): string {
  if (password === "") return "";
  if ([...password].length < 12) return "At least 12 characters.";
  if (new TextEncoder().encode(password).length > 72) return "At most 72 bytes.";
  return "";
}
