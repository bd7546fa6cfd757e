import { useQuery } from "@connectrpc/connect-query";
import { useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { Bot, Inbox, ListChecks, Moon, Search, Server, Sun, Zap } from "lucide-react";
import { useDeferredValue, useState, type ReactNode } from "react";
import { Literal } from "@/components/Literal";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { InboxService } from "@/gen/deckhand/v1/inbox_pb";
import { NodeService } from "@/gen/deckhand/v1/node_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import { TriggerService } from "@/gen/deckhand/v1/trigger_pb";
import type { NavItem } from "./nav";
import { setTheme } from "./theme";

// Words that are looked for on the hub have so many characters at least.
const least = 3;

// matches finds entries that hold every word that was typed: not those in which its
// letters are scattered.
const matches = (value: string, search: string): number => {
  const text = value.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => text.includes(word)) ? 1 : 0;
};

// Palette finds pages, agents, tasks of any age by their words, nodes, triggers and
// what waits in the inbox, and runs commands.
export function Palette(props: { items: NavItem[]; onClose: () => void }) {
  const navigate = useNavigate();
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const [typed, setTyped] = useState("");
  const query = useDeferredValue(typed.trim());
  const words = query.length >= least ? query.slice(0, 200) : "";
  const tasks = useQuery(TaskService.method.listTasks, { pageSize: 50, query: words });
  const nodes = useQuery(NodeService.method.listNodes, { pageSize: 500 });
  const triggers = useQuery(TriggerService.method.listTriggers, { pageSize: 500 });
  const inbox = useQuery(InboxService.method.listInbox, { pageSize: 50 });
  const run = (fn: () => unknown) => () => {
    props.onClose();
    void fn();
  };
  return (
    <Command.Dialog
      open
      onOpenChange={(open) => !open && props.onClose()}
      label="Search or run a command"
      filter={matches}
      overlayClassName="fixed inset-0 z-40 bg-black/50"
      contentClassName="fixed top-[12vh] left-1/2 z-50 w-[calc(100vw-2rem)] max-w-xl -translate-x-1/2 rounded-lg border bg-panel shadow-xl"
    >
      <Command.Input
        autoFocus
        value={typed}
        onValueChange={setTyped}
        placeholder="Search pages, agents, tasks, nodes and commands"
        className="w-full border-b bg-transparent px-4 py-3 outline-none"
      />
      <Command.List className="max-h-[55vh] overflow-y-auto p-2">
        <Command.Empty className="p-4 text-center text-dim">No results.</Command.Empty>
        <Group heading="Go to">
          {props.items.map((item) => (
            <Item key={item.to} value={`go ${item.label}`} run={run(() => navigate({ to: item.to }))}>
              <item.icon aria-hidden className="size-4" /> {item.label}
            </Item>
          ))}
        </Group>
        <Group heading="Agents">
          {agents.data?.agents.map((a) => (
            <Item
              key={a.id}
              value={`agent ${a.name} ${a.id}`}
              run={run(() => navigate({ to: "/agents/$agent", params: { agent: a.name } }))}
            >
              <Bot aria-hidden className="size-4" /> {a.name}
            </Item>
          ))}
        </Group>
        <Group heading={words ? "Tasks" : "Newest tasks"}>
          {tasks.data?.tasks.map((t) => (
            <Item
              key={t.id}
              value={`task ${t.title} ${words ? words : t.goal.slice(0, 200)} ${t.agentName} ${t.id}`}
              run={run(() => navigate({ to: "/tasks/$task", params: { task: t.id } }))}
            >
              <ListChecks aria-hidden className="size-4" />
              <Literal className="truncate" text={t.title || t.goal || t.id} />
              <span className="ml-auto text-xs text-dim">{t.agentName}</span>
            </Item>
          ))}
        </Group>
        <Group heading="Waiting in the inbox">
          {inbox.data?.items.map((i) => (
            <Item key={i.id} value={`inbox ${i.taskTitle} ${i.tool} ${i.agentName} ${i.id}`} run={run(() => navigate({ to: "/inbox", search: { item: i.id } }))}>
              <Inbox aria-hidden className="size-4" />
              <Literal className="truncate" text={i.taskTitle || i.tool || i.id} />
              <span className="ml-auto text-xs text-dim">{i.agentName}</span>
            </Item>
          ))}
        </Group>
        <Group heading="Nodes">
          {nodes.data?.nodes.map((n) => (
            <Item key={n.id} value={`node ${n.name} ${n.id}`} run={run(() => navigate({ to: "/nodes/$nodeId", params: { nodeId: n.name } }))}>
              <Server aria-hidden className="size-4" /> {n.name}
            </Item>
          ))}
        </Group>
        <Group heading="Triggers">
          {triggers.data?.triggers.map((t) => (
            <Item key={t.id} value={`trigger ${t.name} ${t.agentName} ${t.id}`} run={run(() => navigate({ to: "/triggers/$trigger", params: { trigger: t.id } }))}>
              <Zap aria-hidden className="size-4" /> {t.name}
              <span className="ml-auto text-xs text-dim">{t.agentName}</span>
            </Item>
          ))}
        </Group>
        {words && (
          <Group heading="Histories">
            <Item value={`search ${typed}`} run={run(() => navigate({ to: "/search", search: { q: words } }))}>
              <Search aria-hidden className="size-4" />
              <span className="truncate">
                Search commands, results and messages for <Literal text={words} />
              </span>
            </Item>
          </Group>
        )}
        <Group heading="Commands">
          <Item value="theme dark" run={run(() => setTheme("dark"))}>
            <Moon aria-hidden className="size-4" /> Dark theme
          </Item>
          <Item value="theme light" run={run(() => setTheme("light"))}>
            <Sun aria-hidden className="size-4" /> Light theme
          </Item>
        </Group>
      </Command.List>
    </Command.Dialog>
  );
}

function Group(props: { heading: string; children: ReactNode }) {
  return (
    <Command.Group
      heading={props.heading}
      className="[&_[cmdk-group-heading]]:px-2 [&_[cmdk-group-heading]]:py-1 [&_[cmdk-group-heading]]:text-xs [&_[cmdk-group-heading]]:text-dim"
    >
      {props.children}
    </Command.Group>
  );
}

function Item(props: { value: string; run: () => void; children: ReactNode }) {
  return (
    <Command.Item
      value={props.value}
      onSelect={props.run}
      className="flex min-h-8 cursor-pointer items-center gap-2 rounded px-2 data-[selected=true]:bg-raised"
    >
      {props.children}
    </Command.Item>
  );
}
