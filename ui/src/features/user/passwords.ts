// passwordProblem returns why a password is invalid; empty if it is valid.
export function passwordProblem(password: string): string {
  if (password === "") return "";
  if ([...password].length < 12) return "At least 12 characters.";
  if (new TextEncoder().encode(password).length > 72) return "At most 72 bytes.";
  return "";
}
