import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Ellipsis } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useState, type ReactNode } from "react";
import { toast } from "sonner";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Field, Input, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { showError } from "@/components/showError";
import { may } from "@/features/session/queries";
import { AgentStatus, type Agent } from "@/gen/deckhand/v1/agent_pb";
import { agents } from "./AgentHold";
import { Versions } from "./Versions";

type Open = "" | "versions" | "duplicate" | "transfer" | "rename" | "disable" | "delete";

// AgentMenu has what people do with an agent besides running it: some of it only its
// owners and administrators.
export function AgentMenu({ agent }: { agent: Agent }) {
  const session = useSession();
  const [open, setOpen] = useState<Open>("");
  const queries = useQueryClient();
  const navigate = useNavigate();
  const close = () => setOpen("");
  const refresh = () => queries.invalidateQueries();
  const enable = async () => {
    try {
      await agents.enableAgent({ agentId: agent.id });
      toast(`${agent.name} is enabled`);
      await refresh();
    } catch (e) {
      showError(e);
    }
  };
  const undelete = async () => {
    try {
      await agents.undeleteAgent({ agentId: agent.id });
      toast(`${agent.name} is back`);
      await refresh();
    } catch (e) {
      showError(e);
    }
  };
  return (
    <>
      <DropdownMenu.Root>
        <DropdownMenu.Trigger asChild>
          <Button aria-label={`More actions for ${agent.name}`} title="More actions">
            <Ellipsis aria-hidden className="size-4" />
          </Button>
        </DropdownMenu.Trigger>
        <DropdownMenu.Portal>
          <DropdownMenu.Content align="end" sideOffset={4} className="z-50 min-w-52 rounded-md border bg-panel p-1 shadow-lg">
            <Item run={() => setOpen("versions")}>Versions…</Item>
            {may(session, "advanced") && <Item run={() => setOpen("duplicate")}>Duplicate…</Item>}
            {agent.mayManage && may(session, "advanced") && (
              <>
                <Item run={() => setOpen("transfer")}>Owner and visibility…</Item>
                <Item run={() => setOpen("rename")}>Rename…</Item>
                {agent.status === AgentStatus.DISABLED ? <Item run={() => void enable()}>Enable</Item> : <Item run={() => setOpen("disable")}>Disable…</Item>}
                <DropdownMenu.Separator className="my-1 border-t" />
                <Item run={() => setOpen("delete")} danger>Delete…</Item>
              </>
            )}
          </DropdownMenu.Content>
        </DropdownMenu.Portal>
      </DropdownMenu.Root>
      {open === "versions" && <Versions agent={agent} onClose={close} />}
      {open === "duplicate" && (
        <Duplicate
          agent={agent}
          onClose={close}
          done={async (name) => {
            await navigate({ to: "/agents/$agent", params: { agent: name } });
            await refresh();
          }}
        />
      )}
      {open === "transfer" && <Transfer agent={agent} onClose={close} done={refresh} />}
      {open === "rename" && (
        <Rename
          agent={agent}
          onClose={close}
          done={async (name) => {
            await navigate({ to: "/agents/$agent", params: { agent: name } });
            await refresh();
          }}
        />
      )}
      <Confirm
        open={open === "disable"}
        onClose={close}
        title={`Disable ${agent.name}`}
        action="Disable"
        reason
        run={async (reason) => {
          await agents.disableAgent({ agentId: agent.id, reason });
          await refresh();
        }}
      >
        <p>New tasks are refused with your name and the reason, until the agent is enabled. What has started goes on.</p>
      </Confirm>
      {open === "delete" && (
        <Delete
          agent={agent}
          onClose={close}
          done={async () => {
            toast(`${agent.name} is deleted; this can be undone for 7 days`, { action: { label: "Undo", onClick: () => void undelete() }, duration: 15_000 });
            await navigate({ to: "/fleet" });
            await refresh();
          }}
        />
      )}
    </>
  );
}

function Item(props: { run: () => void; danger?: boolean; children: ReactNode }) {
  return (
    <DropdownMenu.Item
      onSelect={props.run}
      className={`flex min-h-8 cursor-default items-center rounded px-2 text-sm outline-none data-highlighted:bg-raised ${props.danger ? "text-bad" : ""}`}
    >
      {props.children}
    </DropdownMenu.Item>
  );
}

function Transfer(props: { agent: Agent; onClose: () => void; done: () => Promise<unknown> }) {
  const [owner, setOwner] = useState(props.agent.owner);
  const [visibility, setVisibility] = useState(props.agent.visibility);
  return (
    <FormDialog
      title={`Owner and visibility of ${props.agent.name}`}
      action="Save"
      onClose={props.onClose}
      run={async () => {
        await agents.transferAgent({ agentId: props.agent.id, owner: owner.trim() === props.agent.owner ? "" : owner.trim(), visibility });
        await props.done();
      }}
    >
      <Field label="Owner" hint="user:NAME or team:NAME. Owners see its tasks and workspace, and change and delete it.">
        <Input value={owner} onChange={(e) => setOwner(e.target.value)} maxLength={128} autoFocus />
      </Field>
      <Field label="Seen by">
        <Select value={visibility} onChange={(e) => setVisibility(e.target.value)}>
          <option value="private">Its owners only</option>
          <option value="team">Whoever is in a team with its owner</option>
          <option value="organisation">Everybody of the organisation</option>
        </Select>
      </Field>
    </FormDialog>
  );
}

function Rename(props: { agent: Agent; onClose: () => void; done: (name: string) => Promise<unknown> }) {
  const [name, setName] = useState(props.agent.name);
  return (
    <FormDialog
      title={`Rename ${props.agent.name}`}
      action="Rename"
      ready={name.trim() !== "" && name.trim() !== props.agent.name}
      onClose={props.onClose}
      run={async () => {
        await agents.renameAgent({ agentId: props.agent.id, name: name.trim() });
        await props.done(name.trim());
      }}
    >
      <p>The old name leads to the agent. Write the new one into its persona file, too.</p>
      <Field label="Name" hint="Lower-case letters, digits and dashes.">
        <Input value={name} onChange={(e) => setName(e.target.value)} maxLength={63} autoFocus />
      </Field>
    </FormDialog>
  );
}

function Duplicate(props: { agent: Agent; onClose: () => void; done: (name: string) => Promise<unknown> }) {
  const [name, setName] = useState(`${props.agent.name}-2`);
  return (
    <FormDialog
      title={`Duplicate ${props.agent.name}`}
      action="Duplicate"
      ready={name.trim() !== ""}
      onClose={props.onClose}
      run={async () => {
        await agents.duplicateAgent({ agentId: props.agent.id, name: name.trim() });
        await props.done(name.trim());
      }}
    >
      <p>The copy is yours. It has the same persona and policy, no triggers, an empty workspace and no history.</p>
      <Field label="Name" hint="Lower-case letters, digits and dashes.">
        <Input value={name} onChange={(e) => setName(e.target.value)} maxLength={63} autoFocus />
      </Field>
    </FormDialog>
  );
}

function Delete(props: { agent: Agent; onClose: () => void; done: () => Promise<unknown> }) {
  const [tasks, setTasks] = useState("finish");
  const { agent } = props;
  return (
    <Confirm
      open
      onClose={props.onClose}
      title={`Delete ${agent.name}`}
      action="Delete"
      typed={agent.name}
      danger
      reason
      run={async (reason) => {
        await agents.deleteAgent({ agentId: agent.id, confirm: agent.name, reason, tasks });
        await props.done();
      }}
    >
      <p>Its triggers stop, and no task of it starts any more. Its history is kept. For 7 days this can be undone.</p>
      <Field label="Tasks that have not ended">
        <Select value={tasks} onChange={(e) => setTasks(e.target.value)}>
          <option value="finish">Let those end that have started, cancel the others</option>
          <option value="cancel">Cancel all</option>
        </Select>
      </Field>
    </Confirm>
  );
}
