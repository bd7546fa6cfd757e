import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { transport } from "@/api/transport";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { download } from "@/components/download";
import { Empty } from "@/components/Empty";
import { Input, Select } from "@/components/Field";
import { Id } from "@/components/Id";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { AuditService, type AuditEntry } from "@/gen/deckhand/v1/control_pb";
import { changesOf } from "./changes";
import { VerifyDialog } from "./VerifyDialog";
import { parseAuditSearch, ranges, severities, type AuditSearch } from "./search";

const route = getRouteApi("/shell/audit");
const filters: [key: "action" | "by" | "object" | "text", label: string, hint: string][] = [
  ["text", "Contains", "any text"],
  ["action", "Action", "task.paused"],
  ["by", "Actor", "admin"],
  ["object", "Object", "task_…"],
];

const audit = createClient(AuditService, transport);

// save downloads the whole audit log with the chain that proves it, and says how it
// is verified.
async function save(busy: (on: boolean) => void) {
  busy(true);
  try {
    const parts: BlobPart[] = [];
    for await (const part of audit.exportAudit({})) parts.push(part.data as Uint8Array<ArrayBuffer>);
    download("audit.jsonl", new Blob(parts, { type: "application/jsonl" }));
    toast.success("Saved as audit.jsonl. Verify it anywhere with: deckhand audit verify audit.jsonl");
  } catch (e) {
    showError(e);
  } finally {
    busy(false);
  }
}

// AuditPage lists audit entries, newest first. Its filters are in the address.
export function AuditPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const since = useMemo(
    () => search.range && { seconds: BigInt(Math.floor(Date.now() / 1000) - ranges[search.range] * 3600) },
    [search.range],
  );
  const [exporting, setExporting] = useState(false);
  const [verifying, setVerifying] = useState(false);
  const pages = useInfiniteQuery(
    AuditService.method.listAuditEntries,
    { since, contains: search.text ?? "", objectId: search.object ?? "", actorId: search.by ?? "", action: search.action ?? "", severity: search.severity ?? "", pageSize: 50, pageToken: "", withTotal: true },
    byToken,
  );
  const { refetch } = pages;
  const refresh = useCallback(() => void refetch(), [refetch]);
  const entries = pages.data?.pages.flatMap((page) => page.entries) ?? [];
  const filtered = search.object || search.by || search.action || search.text || search.severity || search.range;
  return (
    <Page title="Audit" actions={
        <>
          <Button title="Check that no entry was changed, removed or added behind the hub's back" onClick={() => setVerifying(true)}>
            Verify
          </Button>
          <Button busy={exporting} title="Everything, as a file that proves itself" onClick={() => void save(setExporting)}>
            Export
          </Button>
          <Button onClick={refresh}>Refresh</Button>
        </>
      }
    >
      <form
        role="search"
        aria-label="Filter entries"
        className="flex flex-wrap items-end gap-2 pb-3"
        key={JSON.stringify(search)}
        onSubmit={(e) => {
          e.preventDefault();
          const form = new FormData(e.currentTarget);
          const value = (key: string) => String(form.get(key) ?? "").trim() || undefined;
          void navigate({
            search: parseAuditSearch({ action: value("action"), by: value("by"), object: value("object"), text: value("text"), severity: value("severity"), range: value("range") }),
          });
        }}
      >
        {filters.map(([key, label, hint]) => (
          <label key={key} className="text-xs text-dim">
            {label}
            <Input name={key} defaultValue={search[key] ?? ""} placeholder={hint} className="block w-44 text-ink" />
          </label>
        ))}
        <label className="text-xs text-dim">
          Severity
          <Select name="severity" defaultValue={search.severity ?? ""} className="block text-ink">
            <option value="">Any</option>
            {severities.map((s) => (
              <option key={s} value={s}>
                {s}
              </option>
            ))}
          </Select>
        </label>
        <label className="text-xs text-dim">
          Time
          <Select name="range" defaultValue={search.range ?? ""} className="block text-ink">
            <option value="">All</option>
            <option value="1h">Last hour</option>
            <option value="24h">Last 24 hours</option>
            <option value="7d">Last 7 days</option>
            <option value="30d">Last 30 days</option>
          </Select>
        </label>
        <Button type="submit">Filter</Button>
        {filtered && <Button onClick={() => void navigate({ search: {} })}>Clear</Button>}
      </form>
      {pages.isPending ? (
        <Skeletons rows={10} />
      ) : pages.error ? (
        <Problem error={pages.error} retry={refresh} />
      ) : entries.length === 0 ? (
        filtered ? (
          <Empty title="No entries match">Action, actor and object match exactly; “Contains” finds any text.</Empty>
        ) : (
          <Empty title="No entries yet" command="deckhand audit list">
            Every change that a person makes is recorded here, with the person and the address.
          </Empty>
        )
      ) : (
        <Table label="Audit entries" head={["Time", "Actor", "Action", "Object", "Changes", "Reason"]}>
          {entries.map((e) => (
            <Entry key={String(e.id)} entry={e} onFilter={(s) => void navigate({ search: (old) => ({ ...old, ...s }) })} />
          ))}
        </Table>
      )}
      <More pages={pages} shown={entries.length}>Older entries</More>
      {verifying && <VerifyDialog onClose={() => setVerifying(false)} onDone={refresh} />}
    </Page>
  );
}

function Entry(props: { entry: AuditEntry; onFilter: (s: AuditSearch) => void }) {
  const e = props.entry;
  const link = "min-h-6 text-left underline decoration-dotted hover:text-accent";
  return (
    <Row>
      <Cell>
        <Time at={e.time} />
      </Cell>
      <Cell>
        <button type="button" className={link} title={`Filter by ${e.actorId}`} onClick={() => props.onFilter({ by: e.actorId })}>
          {e.actorId || e.actorKind}
        </button>
        <div className="text-xs text-dim" title={e.userAgent}>
          {[e.actorKind, e.address].filter(Boolean).join(", ")}
        </div>
      </Cell>
      <Cell>
        <button type="button" className={link} title={`Filter by ${e.action}`} onClick={() => props.onFilter({ action: e.action })}>
          {e.action}
        </button>
        {(e.severity === "high" || e.severity === "critical") && (
          <div>
            <Badge tone={e.severity === "critical" ? "bad" : "warn"}>{e.severity}</Badge>
          </div>
        )}
      </Cell>
      <Cell>
        <div className="text-xs text-dim">{e.objectKind}</div>
        {e.objectId && <Id value={e.objectId} />}
        {e.objectId && (
          <button type="button" className={`${link} ml-1 text-xs`} onClick={() => props.onFilter({ object: e.objectId })}>
            history
          </button>
        )}
      </Cell>
      <Cell className="max-w-md">
        <Changes entry={e} />
      </Cell>
      <Cell className="max-w-60 break-words"><Literal text={e.reason} /></Cell>
    </Row>
  );
}

const shown = 4;

function Changes(props: { entry: AuditEntry }) {
  const [open, setOpen] = useState(false);
  const all = changesOf(props.entry.before, props.entry.after);
  return (
    <>
      <ul className="space-y-0.5 text-xs">
        {(open ? all : all.slice(0, shown)).map((c) => (
          <li key={c.field} className="break-words">
            <span className="text-dim">{c.field}</span>{" "}
            {c.before && <del className="text-bad"><Literal text={c.before} /></del>}{" "}
            {c.after && <ins className="text-good no-underline"><Literal text={c.after} /></ins>}
          </li>
        ))}
      </ul>
      {all.length > shown && (
        <Button small look="quiet" onClick={() => setOpen(!open)}>
          {open ? "Less" : `${all.length - shown} more`}
        </Button>
      )}
    </>
  );
}
