import { Link } from "@tanstack/react-router";

const mostText = 4_000;

// RuleLink leads to the policy with a rule about a call at its end, which a person
// narrows, tries and applies. Calls that are too long for an address have none.
export function RuleLink(props: { tool: string; arguments: Record<string, unknown> | undefined; agent: string; className?: string }) {
  const command = typeof props.arguments?.command === "string" ? props.arguments.command : undefined;
  const args = command === undefined ? JSON.stringify(props.arguments ?? {}) : undefined;
  if ((command ?? args ?? "").length > mostText || props.tool === "") return null;
  return (
    <Link to="/policy" search={{ tool: props.tool, command, args, by: props.agent || undefined }} className={props.className ?? "underline"}>
      Make a rule of this
    </Link>
  );
}
