import { useQuery } from "@connectrpc/connect-query";
import { useNavigate } from "@tanstack/react-router";
import { Command } from "cmdk";
import { Bot, ListChecks, Moon, Sun } from "lucide-react";
import type { ReactNode } from "react";
import { Literal } from "@/components/Literal";
import { AgentService } from "@/gen/deckhand/v1/agent_pb";
import { TaskService } from "@/gen/deckhand/v1/task_pb";
import type { NavItem } from "./nav";
import { setTheme } from "./theme";

// Palette finds pages, agents and tasks, and runs commands.
export function Palette(props: { items: NavItem[]; onClose: () => void }) {
  const navigate = useNavigate();
  const agents = useQuery(AgentService.method.listAgents, { pageSize: 500 });
  const tasks = useQuery(TaskService.method.listTasks, { pageSize: 50 });
  const run = (fn: () => unknown) => () => {
    props.onClose();
    void fn();
  };
  return (
    <Command.Dialog
      open
      onOpenChange={(open) => !open && props.onClose()}
      label="Search or run a command"
      overlayClassName="fixed inset-0 z-40 bg-black/50"
      contentClassName="fixed top-[12vh] left-1/2 z-50 w-[calc(100vw-2rem)] max-w-xl -translate-x-1/2 rounded-lg border bg-panel shadow-xl"
    >
      <Command.Input
        autoFocus
        placeholder="Search pages, agents, tasks and commands"
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
        <Group heading="Newest tasks">
          {tasks.data?.tasks.map((t) => (
            <Item
              key={t.id}
              value={`task ${t.title} ${t.goal.slice(0, 200)} ${t.agentName} ${t.id}`}
              run={run(() => navigate({ to: "/tasks/$task", params: { task: t.id } }))}
            >
              <ListChecks aria-hidden className="size-4" />
              <Literal className="truncate" text={t.title || t.goal || t.id} />
              <span className="ml-auto text-xs text-dim">{t.agentName}</span>
            </Item>
          ))}
        </Group>
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
