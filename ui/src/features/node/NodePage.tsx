import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { SquareTerminal } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Empty } from "@/components/Empty";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { bytes } from "@/components/money";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { Facts, Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { Files } from "@/features/workspace/Files";
import { MachineService } from "@/gen/deckhand/v1/machine_pb";
import { NodeService, type Node, type NodeUpgrade } from "@/gen/deckhand/v1/node_pb";
import type { NodeUsage } from "@/gen/deckhand/v1/node_telemetry_pb";
import { Execs } from "./Execs";
import { Locks } from "./Locks";
import { Logs } from "./Logs";
import { MachineFiles } from "./MachineFiles";
import { Labels, NodeBadges } from "./NodeBadges";
import { NodeActions } from "./NodeActions";
import type { Samples } from "./samples";
import { cpus, UsageCharts, UsageEvents } from "./UsageCharts";
import { useTelemetry } from "./useTelemetry";

const Terminal = lazy(() => import("@/features/terminal/Terminal").then((m) => ({ default: m.Terminal })));
const route = getRouteApi("/shell/nodes/$nodeId");

// NodePage shows one node: its usage, jails, manual commands, locks and skills.
export function NodePage() {
  const { nodeId } = route.useParams();
  // Nodes have no events: it is asked for again.
  const query = useQuery(NodeService.method.getNode, { nodeId }, { refetchInterval: 5_000 });
  const node = query.data?.node;
  const { terminal } = route.useSearch();
  const navigate = route.useNavigate();
  return (
    <Page
      full
      title={node?.name ?? nodeId}
      heading={
        <>
          <Link to="/nodes" className="font-normal text-dim hover:underline">
            Nodes
          </Link>{" "}
          <span aria-hidden className="text-dim">
            /
          </span>{" "}
          {node?.name ?? nodeId}
        </>
      }
      actions={
        node && (
          <>
            <HostTerminal node={node} />
            <NodeActions node={node} />
          </>
        )
      }
    >
      <div className="flex h-full min-h-0 flex-col">
        <div className="min-h-0 flex-1 overflow-y-auto px-5 pb-8">
          {query.isPending ? (
            <Skeletons rows={8} />
          ) : !node ? (
            <Problem error={query.error} retry={() => void query.refetch()} />
          ) : (
            <Machine node={node} />
          )}
        </div>
        {node && terminal && (
          <Suspense fallback={<div className="p-3"><Skeletons rows={3} /></div>}>
            <Terminal
              nodeId={node.id}
              agent={terminal === host ? "" : terminal}
              host={terminal === host}
              onClose={() => void navigate({ search: (s) => ({ ...s, terminal: undefined }) })}
            />
          </Suspense>
        )}
      </div>
    </Page>
  );
}

// How the address names the machine itself: no agent is called so.
const host = "@host";

// HostTerminal opens a shell on the machine itself, after a question: it is no
// jail, and it holds the node's lock.
function HostTerminal({ node }: { node: Node }) {
  const session = useSession();
  const navigate = route.useNavigate();
  const [asking, setAsking] = useState(false);
  if (!may(session, "admin") || node.status !== "connected") return null;
  return (
    <>
      <Button onClick={() => setAsking(true)}>
        <SquareTerminal aria-hidden className="size-4" /> Host terminal
      </Button>
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`Open a host terminal on ${node.name}`}
        action="Open host terminal"
        danger
        run={() => navigate({ search: (s) => ({ ...s, terminal: host }) })}
      >
        <p>This is a root shell outside of any jail: commands change the machine itself. Tasks are blocked while it is open, and the session is recorded.</p>
      </Confirm>
    </>
  );
}

function Machine({ node }: { node: Node }) {
  const connected = node.status === "connected";
  const { samples, error } = useTelemetry(node.id, connected);
  return (
    <>
      {node.pressure && (
        <p role="status" className="mb-3 rounded-md border border-warn bg-panel p-3 text-warn">
          Not accepting tasks: {node.pressure}
        </p>
      )}
      <Facts
        of={[
          ["State", <NodeBadges key="b" node={node} />],
          ["Id", <Id key="i" value={node.id} />],
          ["Labels", <Labels key="l" of={node.labels} />],
          ["Runtimes", node.runtimes.join(", ")],
          ["Version", `${node.version} (link ${node.capability})`],
          ["Last upgrade", node.upgrade && <UpgradeState key="u" of={node.upgrade} />],
          ["Enrolled", <Time key="c" at={node.createdAt} />],
          ["Last seen", <Time key="s" at={node.lastSeenAt} />],
          ["Drained", node.drain && <>by {node.drain.by}, <Time at={node.drain.since} />{node.drain.reason && <>: <Literal text={node.drain.reason} /></>}</>],
        ]}
      />
      <Usage nodeId={node.id} samples={samples} error={error} connected={connected} />
      <Execs node={node} />
      <Locks node={node} />
      {connected && <Host node={node} />}
      <Skills node={node} />
    </>
  );
}

// Host is what administrators see of the machine: what is installed, its logs, and the files that its
// operator shows.
function Host({ node }: { node: Node }) {
  const session = useSession();
  const { path = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const admin = may(session, "admin");
  const machine = useQuery(MachineService.method.getMachine, { nodeId: node.id }, { enabled: admin, retry: false });
  if (!admin) return null;
  if (machine.error)
    return (
      <Section title="Machine">
        <Problem error={machine.error} retry={() => void machine.refetch()} />
      </Section>
    );
  if (!machine.data) return <Skeletons rows={2} />;
  const { os, kernel, architecture, systemd } = machine.data;
  return (
    <>
      <Section title="Machine">
        <Facts
          of={[
            ["System", os && <Literal key="o" text={os} />],
            ["Kernel", kernel && <Literal key="k" text={kernel} />],
            ["Architecture", architecture],
            ["systemd", systemd],
          ]}
        />
      </Section>
      <Logs nodeId={node.id} machine={machine.data} />
      <MachineFiles nodeId={node.id} machine={machine.data} path={path} open={(to) => void navigate({ search: (s) => ({ ...s, path: to || undefined }) })} />
    </>
  );
}

function Usage({ nodeId, samples, error, connected }: { nodeId: string; samples: Samples; error: unknown; connected: boolean }) {
  const session = useSession();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const jail = search.jail ?? "";
  const latest = samples.latest(jail);
  const whose = jail ? latest?.agentName || jail : "";
  return (
    <>
      <Section
        title={jail ? `Usage of the jail of ${whose}` : "Usage of the machine"}
        actions={jail && <Button onClick={() => void navigate({ search: (s) => ({ ...s, jail: undefined }) })}>Show machine</Button>}
      >
        {error !== undefined && <Problem error={error} />}
        {samples.times.length === 0 ? (
          connected ? (
            error === undefined && <Skeletons rows={1} className="h-40 w-full" />
          ) : (
            <p className="text-dim">Not connected: no figures are available.</p>
          )
        ) : (
          <UsageCharts samples={samples} jail={jail} />
        )}
        <UsageEvents events={samples.events} />
      </Section>
      <Section title="Jails">
        {samples.jails.length === 0 ? (
          <p className="text-dim">No running jails.</p>
        ) : (
          <Table label="Jails" head={["Jail", "Agent", "CPU", "Memory", "Disk", "Processes", "OOM kills", ""]}>
            {samples.jails.map((j) => (
              <Row key={j.jailId} selected={j.jailId === jail}>
                <Cell>
                  <Id value={j.jailId} />
                </Cell>
                <Cell>
                  {j.agentName ? (
                    <Link to="/agents/$agent" params={{ agent: j.agentName }} className="text-accent hover:underline">
                      {j.agentName}
                    </Link>
                  ) : (
                    <span className="text-dim">none</span>
                  )}
                </Cell>
                <Cell className="whitespace-nowrap">{j.cpuMillis === undefined ? "" : cpus(Number(j.cpuMillis))}</Cell>
                <Cell className="whitespace-nowrap">{ofLimit(j, "memoryBytes", "memoryLimitBytes")}</Cell>
                <Cell className="whitespace-nowrap">{ofLimit(j, "diskBytes", "diskLimitBytes")}</Cell>
                <Cell>{j.pids === undefined ? "" : String(j.pids)}</Cell>
                <Cell>{j.oomKills ? <span className="text-bad">{String(j.oomKills)}</span> : "0"}</Cell>
                <Cell>
                  <div className="flex gap-1">
                    <Button
                      small
                      aria-pressed={j.jailId === jail}
                      onClick={() => void navigate({ search: (s) => ({ ...s, jail: j.jailId === jail ? undefined : j.jailId }) })}
                    >
                      Charts
                    </Button>
                    <Button
                      small
                      aria-pressed={j.jailId === search.files}
                      onClick={() => void navigate({ search: (s) => ({ ...s, files: j.jailId === search.files ? undefined : j.jailId }) })}
                    >
                      Files
                    </Button>
                    {j.agentName && may(session, "advanced") && (
                      <Button small onClick={() => void navigate({ search: (s) => ({ ...s, terminal: j.agentName }) })}>
                        Terminal
                      </Button>
                    )}
                  </div>
                </Cell>
              </Row>
            ))}
          </Table>
        )}
      </Section>
      {search.files && (
        <Section
          title={`Files in the jail of ${samples.jails.find((j) => j.jailId === search.files)?.agentName || search.files}`}
          actions={<Button onClick={() => void navigate({ search: (s) => ({ ...s, files: undefined }) })}>Close</Button>}
        >
          <Files key={search.files} of={{ case: "jail", value: { nodeId, jailId: search.files } }} live={connected} />
        </Section>
      )}
    </>
  );
}

function ofLimit(j: NodeUsage, used: "memoryBytes" | "diskBytes", limit: "memoryLimitBytes" | "diskLimitBytes") {
  const n = j[used];
  if (n === undefined) return "";
  const most = j[limit];
  return most ? `${bytes(n)} of ${bytes(most)}` : bytes(n);
}

function Skills({ node }: { node: Node }) {
  return (
    <Section title="Skills">
      {node.skills.length === 0 ? (
        <Empty title="No skills on this node" command="deckhand-node --skills-dir /etc/deckhand/skills">
          Skills are folders with a SKILL.md that every agent on this node can read.
        </Empty>
      ) : (
        <Table label="Skills" head={["Skill", "Description", "Path"]}>
          {node.skills.map((skill) => (
            <Row key={skill.path}>
              <Cell className="font-medium">{skill.name}</Cell>
              <Cell>
                <Literal text={skill.description} />
                {skill.problem && <div className="text-bad">{skill.problem}</div>}
              </Cell>
              <Cell>
                <Id value={skill.path} whole />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </Section>
  );
}

// UpgradeState says what became of a node's last upgrade. The node's own words are shown as they are.
function UpgradeState({ of }: { of: NodeUpgrade }) {
  if (of.state === "failed")
    return (
      <span className="text-bad">
        To {of.version}: failed, the version before runs. <Literal text={of.problem} />
      </span>
    );
  return of.state === "trial" ? <>To {of.version}: being tried</> : <>To {of.version}: installed</>;
}
