import {
  Book, Bot, Bug, Cloud, Compass, Database, Eye, FlaskConical, Hammer, Leaf, Mail, PenLine, Rocket, Search, Shield, SquareTerminal,
  type LucideIcon,
} from "lucide-react";
import { line } from "@/components/marks";
import type { Agent } from "@/gen/deckhand/v1/agent_pb";

// pictures are the built-in avatars of personas, by the names in internal/persona.
const pictures: Record<string, LucideIcon> = {
  book: Book, bot: Bot, bug: Bug, cloud: Cloud, compass: Compass, database: Database, eye: Eye, flask: FlaskConical, hammer: Hammer, leaf: Leaf,
  magnifier: Search, mail: Mail, pen: PenLine, rocket: Rocket, shield: Shield, terminal: SquareTerminal,
};

// AgentFace is an agent's avatar: its picture, its emoji, or its initials.
export function AgentFace({ agent }: { agent: Pick<Agent, "name" | "avatar"> }) {
  const Picture = Object.hasOwn(pictures, agent.avatar) ? pictures[agent.avatar] : undefined;
  const emoji = Picture || !agent.avatar ? "" : agent.avatar;
  return (
    <span
      aria-hidden
      data-avatar={agent.avatar || "initials"}
      className={`grid size-8 shrink-0 place-items-center rounded-md font-semibold ${emoji ? "bg-raised text-lg" : "text-sm text-white"}`}
      style={emoji ? undefined : { background: colour(agent.name) }}
    >
      {Picture ? <Picture className="size-4.5" /> : emoji ? line(emoji) : agent.name.slice(0, 2).toUpperCase()}
    </span>
  );
}

// colour is the same for a name for ever, and dark enough for white.
function colour(name: string): string {
  let hash = 0;
  for (const c of name) hash = (hash * 31 + c.charCodeAt(0)) >>> 0;
  return `hsl(${hash % 360} 45% 32%)`;
}
