import { getRouteApi, Link } from "@tanstack/react-router";
import { Badge } from "@/components/Badge";
import { Page } from "@/components/Page";
import { Draft, type Text } from "./Draft";
import { starters } from "./starters";

const route = getRouteApi("/shell/agents/new");

const blank: Text = {
  markdown: `---
name: my-agent
description: What the agent is for, in one line.
provider: anthropic
model: claude-sonnet-5-5
tools: [shell_exec, file_read, file_write, file_list, complete_task]
limits:
  iterations: 30
---

# Role

Describe who the agent is, how it works, what it must not do, and when it is done.
`,
  script: "",
};

// NewAgentPage makes an agent: from one of the personas that come with Deckhand,
// or from nothing.
export function NewAgentPage() {
  const { from } = route.useSearch();
  const navigate = route.useNavigate();
  const starter = starters.find((s) => s.name === from);
  if (from === "blank" || starter) {
    return (
      <Draft
        key={from}
        title="New agent"
        from={starter ?? blank}
        onDone={(res) => void navigate({ to: "/agents/$agent/edit", params: { agent: res.agent?.name ?? "" }, search: {} })}
      />
    );
  }
  return (
    <Page title="New agent">
      <p className="pb-3 text-dim">An agent is one Markdown file, its persona. Choose a template to start from:</p>
      <ul className="grid grid-cols-[repeat(auto-fill,minmax(min(100%,17rem),1fr))] gap-3">
        {starters.map((s) => (
          <Starter key={s.name} name={s.name} description={s.description} provider={s.provider} from={s.name} />
        ))}
        <Starter name="Blank" description="Only the required settings." from="blank" />
      </ul>
    </Page>
  );
}

function Starter(props: { name: string; description: string; provider?: string; from: string }) {
  return (
    <li>
      <Link
        to="/agents/new"
        search={{ from: props.from }}
        className="block h-full rounded-lg border bg-panel p-3 hover:bg-raised"
      >
        <span className="flex items-center gap-2">
          <span className="flex-1 truncate font-semibold">{props.name}</span>
          {props.provider && <Badge>{props.provider}</Badge>}
        </span>
        <span className="block pt-1 text-dim">{props.description}</span>
      </Link>
    </li>
  );
}
