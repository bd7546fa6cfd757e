import { useQuery } from "@connectrpc/connect-query";
import { DeckhandError } from "@deckhand/sdk";
import { File, Folder } from "lucide-react";
import { useMemo } from "react";
import { Button } from "@/components/Button";
import { Empty } from "@/components/Empty";
import { Literal } from "@/components/Literal";
import { line } from "@/components/marks";
import { bytes } from "@/components/money";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { FileText } from "@/features/workspace/Preview";
import type { FileInfo } from "@/gen/deckhand/v1/file_pb";
import { MachineService, type GetMachineResponse } from "@/gen/deckhand/v1/machine_pb";

const shown = 256 * 1024;

// parentOf returns the folder that a path is in.
const parentOf = (path: string) => path.slice(0, Math.max(path.lastIndexOf("/"), 1));

// above returns the folders from a shown one down to a path, that one included.
export function above(folders: string[], path: string): string[] {
  const top = folders.filter((f) => path === f || path.startsWith(`${f}/`)).toSorted((a, b) => b.length - a.length)[0];
  if (top === undefined) return [];
  const out = [path];
  while (out[0] !== top) out.unshift(parentOf(out[0]!));
  return out;
}

// MachineFiles shows the folders of the machine that the node's operator shows. path is the
// folder or file that is open; a file ends without a slash, a folder with one.
export function MachineFiles(props: { nodeId: string; machine: GetMachineResponse; path: string; open: (path: string) => void }) {
  const { nodeId, machine, path, open } = props;
  const isFile = path !== "" && !path.endsWith("/");
  const folder = isFile ? parentOf(path) : path.slice(0, -1);
  const trail = above(machine.folders, folder);
  return (
    <Section title="Files of the machine" actions={path && <Button onClick={() => open("")}>Close</Button>}>
      {machine.folders.length === 0 ? (
        <Empty title="No folders may be browsed" command="browse-paths: [/var/log, /etc/nginx]">
          The operator of this node lists folders in node.yaml. Administrators can then read the files in them here; each read is in the audit log.
        </Empty>
      ) : (
        <div className="space-y-3">
          <nav aria-label="Folder" className="flex flex-wrap gap-1">
            {(trail.length > 0 ? trail : machine.folders).map((dir, i) => (
              <Button key={dir} small look={dir === folder ? "plain" : "quiet"} aria-current={dir === folder ? "true" : undefined} onClick={() => open(`${dir}/`)}>
                <Literal text={i === 0 || trail.length === 0 ? dir : dir.slice(dir.lastIndexOf("/") + 1)} />
              </Button>
            ))}
          </nav>
          {path !== "" && <FolderList key={folder} nodeId={nodeId} path={folder} open={open} file={isFile ? path : ""} />}
          {isFile && <MachineFile key={path} nodeId={nodeId} path={path} open={open} />}
        </div>
      )}
    </Section>
  );
}

function FolderList({ nodeId, path, open, file }: { nodeId: string; path: string; open: (path: string) => void; file: string }) {
  const { data, error, isPending, refetch } = useQuery(MachineService.method.listMachineFiles, { nodeId, path }, { retry: false });
  const sorted = useMemo(
    () => (data?.files ?? []).toSorted((a, b) => Number(b.type === "dir") - Number(a.type === "dir") || a.path.localeCompare(b.path)),
    [data],
  );
  if (isPending) return <Skeletons rows={4} className="h-6 w-full" />;
  if (error) return <Problem error={error} retry={() => void refetch()} />;
  if (sorted.length === 0) return <p className="text-dim">The folder is empty.</p>;
  return (
    <>
      <Table label="Files of the machine" head={["Name", "Size", "Changed"]}>
        {sorted.map((f) => (
          <Row key={f.path} selected={f.path === file}>
            <Cell>
              <Entry of={f} open={open} />
            </Cell>
            <Cell className="whitespace-nowrap">{f.type === "file" ? bytes(f.size) : ""}</Cell>
            <Cell>
              <Time at={f.modifiedAt} />
            </Cell>
          </Row>
        ))}
      </Table>
      {data.truncated && <p className="text-xs text-dim">Only the first 10,000 entries are listed.</p>}
    </>
  );
}

function Entry({ of, open }: { of: FileInfo; open: (path: string) => void }) {
  const name = of.path.slice(of.path.lastIndexOf("/") + 1);
  const Icon = of.type === "dir" ? Folder : File;
  // The path of a name that cannot be shown is quoted, and opens nothing.
  if (!of.path.startsWith("/")) return <Literal className="break-all" text={of.path} />;
  if (of.type !== "dir" && of.type !== "file" && of.type !== "symlink") return <Literal text={name} />;
  return (
    <button
      type="button"
      className="flex min-h-6 items-center gap-1.5 text-left font-mono text-xs hover:underline"
      onClick={() => open(of.type === "dir" ? `${of.path}/` : of.path)}
    >
      <Icon aria-hidden className="size-3.5 text-dim" />
      <Literal className="break-all" text={name} />
      {of.type === "symlink" && <span className="text-dim">(link)</span>}
    </button>
  );
}

function MachineFile({ nodeId, path, open }: { nodeId: string; path: string; open: (path: string) => void }) {
  const { data, error, isPending } = useQuery(MachineService.method.readMachineFile, { nodeId, path, limit: BigInt(shown) }, { retry: false });
  const text = useMemo(() => (data ? new TextDecoder().decode(data.content) : ""), [data]);
  return (
    <section aria-label={line(path)} className="space-y-1 border-t pt-3">
      <h3 className="font-mono text-xs break-all">
        <Literal text={path} />
      </h3>
      {isPending ? (
        <Skeletons rows={4} />
      ) : error ? (
        <>
          <Problem error={error} />
          {DeckhandError.from(error).rpcCode === "failed_precondition" && (
            <Button small onClick={() => open(`${path}/`)}>
              Open as a folder
            </Button>
          )}
        </>
      ) : text.includes("\u0000") ? (
        <p className="text-dim">Binary file, {bytes(data.size)}.</p>
      ) : (
        <>
          <FileText path={path} text={text} />
          {Number(data.size) > shown && <p className="text-xs text-dim">Showing the first {bytes(shown)} of {bytes(data.size)}.</p>}
        </>
      )}
    </section>
  );
}
