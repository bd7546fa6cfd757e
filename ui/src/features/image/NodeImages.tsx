import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { toast } from "sonner";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { Field, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { Id, shorten } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { ImageService, type NodeImage } from "@/gen/deckhand/v1/image_pb";
import { repositoryOf } from "./reference";

const images = createClient(ImageService, transport);
const route = getRouteApi("/shell/images");

// NodeImages lists the images on one of the connected nodes.
export function NodeImages(props: { nodes: string[]; list: { isPending: boolean; error: unknown; refetch: () => unknown }; admin: boolean }) {
  const { nodes, list } = props;
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [pruning, setPruning] = useState(false);
  const node = search.node ?? nodes[0];
  return (
    <Section
      title="Images on nodes"
      actions={
        node !== undefined && (
          <>
            <Select aria-label="Node" value={node} onChange={(e) => void navigate({ search: { node: e.target.value } })}>
              {[...new Set([node, ...nodes])].sort().map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
            </Select>
            {props.admin && <Button onClick={() => setPruning(true)}>Prune images</Button>}
          </>
        )
      }
    >
      {node !== undefined ? (
        <Images node={node} />
      ) : list.isPending ? (
        <Skeletons rows={3} />
      ) : list.error ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : (
        <p className="rounded-lg border bg-panel p-3 text-dim">No node is connected.</p>
      )}
      {node !== undefined && pruning && <PruneImages node={node} onClose={() => setPruning(false)} />}
    </Section>
  );
}

function Images({ node }: { node: string }) {
  // Images have no events: the list is asked for again.
  const list = useQuery(ImageService.method.listImages, { nodeId: node, pageSize: 500 }, { refetchInterval: 15_000 });
  const all = list.data?.images ?? [];
  if (list.isPending) return <Skeletons rows={3} />;
  if (list.error && all.length === 0) return <Problem error={list.error} retry={() => void list.refetch()} />;
  if (all.length === 0) {
    return (
      <Empty title={`No images on ${node}`} command={`deckhand node image pull ${node} docker.io/library/golang:1.26`}>
        A node pulls an image when the first task needs it. Pull it before that to save the task the wait.
      </Empty>
    );
  }
  return (
    <Table label={`Images on ${node}`} head={["Image", "Platform", "Size", "Prepared", "Kept by", "Last used"]}>
      {all.map((one) => (
        <Row key={`${one.reference} ${one.setup}`}>
          <Cell>
            <Reference of={one} />
          </Cell>
          <Cell>
            <Literal text={one.platform} />
          </Cell>
          <Cell className="whitespace-nowrap">
            {bytes(one.bytes)}
            <div className="text-xs text-dim">
              {one.layers} {one.layers === 1 ? "layer" : "layers"}
            </div>
          </Cell>
          <Cell>{one.setup ? <Badge tone="good" title={`setup ${one.setup}`}>prepared</Badge> : <span className="text-dim">no</span>}</Cell>
          <Cell>
            <KeptBy of={one} />
          </Cell>
          <Cell>
            <Time at={one.usedAt} none="never" />
          </Cell>
        </Row>
      ))}
    </Table>
  );
}

function Reference({ of }: { of: NodeImage }) {
  return (
    <>
      <div className="font-medium break-all">
        <Literal text={repositoryOf(of.reference)} />
      </div>
      <Id value={of.reference} whole className="text-dim" />
    </>
  );
}

// How many tasks are linked.
const shown = 3;

function KeptBy({ of }: { of: NodeImage }) {
  if (of.tasks === 0n) return <span className="text-dim">no task</span>;
  const more = Number(of.tasks) - Math.min(shown, of.taskIds.length);
  return (
    <ul>
      {of.taskIds.slice(0, shown).map((id) => (
        <li key={id}>
          <Link to="/tasks/$task" params={{ task: id }} title={id} className="inline-flex min-h-6 items-center font-mono text-xs text-accent hover:underline">
            {shorten(id)}
          </Link>
        </li>
      ))}
      {more > 0 && (
        <li className="text-xs text-dim">
          and {more} more {more === 1 ? "task" : "tasks"}
        </li>
      )}
    </ul>
  );
}

const day = 86_400;
const ages: [seconds: number, label: string][] = [
  [0, "All unused images"],
  [day, "Unused for a day"],
  [7 * day, "Unused for a week"],
  [14 * day, "Unused for two weeks"],
];

function PruneImages({ node, onClose }: { node: string; onClose: () => void }) {
  const [unused, setUnused] = useState(day);
  const refresh = useRefresh(ImageService);
  return (
    <FormDialog
      title={`Prune images on ${node}`}
      action="Prune"
      danger
      onClose={onClose}
      run={async () => {
        const { deleted } = await images.pruneImages({ nodeId: node, unusedFor: { seconds: BigInt(unused) } });
        await refresh();
        const size = deleted.reduce((sum, one) => sum + one.bytes, 0n);
        toast.success(deleted.length === 0 ? "No images to delete." : `Deleted ${deleted.length} ${deleted.length === 1 ? "image" : "images"}, ${bytes(size)} compressed.`);
      }}
    >
      <p>Images that a jail has, or that a task which has not ended keeps, are not deleted. A task that needs a deleted image pulls it again.</p>
      <Field label="Images">
        <Select className="w-full" value={unused} onChange={(e) => setUnused(Number(e.target.value))}>
          {ages.map(([seconds, label]) => (
            <option key={seconds} value={seconds}>
              {label}
            </option>
          ))}
        </Select>
      </Field>
    </FormDialog>
  );
}
