// browserOf shortens what a browser says of itself.
export function browserOf(agent: string): string {
  const name =
    /(Edg|OPR|Firefox|HeadlessChrome)\/(\d+)/.exec(agent) ?? /(Chrome|Safari|deckhand|curl)(?:\/(\d+))?/i.exec(agent);
  const on = /Windows|Mac OS X|Android|iPhone|Linux/.exec(agent)?.[0];
  if (!name) return agent || "unknown";
  const word = { Edg: "Edge", OPR: "Opera", HeadlessChrome: "Chrome" }[name[1]!] ?? name[1]!;
  return [word, name[2], on && `on ${on}`].filter(Boolean).join(" ");
}
