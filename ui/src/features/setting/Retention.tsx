import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Field, Input } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { Id } from "@/components/Id";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { RetentionService, type LegalHold, type RetentionRule } from "@/gen/deckhand/v1/retention_pb";

const retention = createClient(RetentionService, transport);

const kept = (days: number) => (days === 0 ? "for ever" : days === 1 ? "1 day" : `${days} days`);
const maxDays = 36_500;

// Retention shows and changes how long what ended tasks have left is kept, and the legal
// holds. It is for admins.
export function Retention() {
  const [changing, setChanging] = useState<RetentionRule>();
  const refresh = useRefresh(RetentionService);
  const found = useQuery(RetentionService.method.getRetention, { plan: true });
  return (
    <Section title="Retention">
      {found.isPending ? (
        <Skeletons rows={4} />
      ) : found.error ? (
        <Problem error={found.error} retry={() => void found.refetch()} />
      ) : (
        <Table label="Retention" head={["Data of ended tasks", "Kept", "To delete", "Deleted", ""]}>
          {found.data.rules.map((r) => (
            <Row key={r.kind}>
              <Cell>{r.description}</Cell>
              <Cell>{kept(r.days)}</Cell>
              <Cell>
                {r.days === 0 ? "–" : `${r.dueRows} rows`}
                {r.heldTasks > 0n && `, ${r.heldTasks} tasks on hold`}
              </Cell>
              <Cell>
                {String(r.deleted)} {r.deletedAt && <Time at={r.deletedAt} />}
              </Cell>
              <Cell className="text-right">
                <Button small aria-label={`Change the retention of ${r.kind}`} onClick={() => setChanging(r)}>
                  Change
                </Button>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <p className="text-dim">Tasks, their results and the audit are never deleted.</p>
      <Holds />
      {changing && <Change of={changing} done={refresh} onClose={() => setChanging(undefined)} />}
    </Section>
  );
}

function Change({ of, done, onClose }: { of: RetentionRule; done: () => Promise<void>; onClose: () => void }) {
  const [days, setDays] = useState(String(of.days));
  const n = Number(days);
  return (
    <FormDialog
      title={`Retention of ${of.kind.replaceAll("_", " ")}`}
      action="Save"
      ready={days !== "" && Number.isInteger(n) && n >= 0 && n <= maxDays}
      onClose={onClose}
      run={async () => {
        await retention.setRetention({ days: { [of.kind]: n } });
        await done();
      }}
    >
      <Field label="Days after the end of a task" hint="0 keeps it for ever. Deletion begins within a minute and cannot be undone.">
        <Input type="number" min={0} max={maxDays} value={days} onChange={(e) => setDays(e.target.value)} />
      </Field>
    </FormDialog>
  );
}

function Holds() {
  const [setting, setSetting] = useState(false);
  const [releasing, setReleasing] = useState<LegalHold>();
  const refresh = useRefresh(RetentionService);
  const list = useInfiniteQuery(RetentionService.method.listLegalHolds, { pageSize: 100, pageToken: "" }, byToken);
  const holds = list.data?.pages.flatMap((page) => page.holds) ?? [];
  return (
    <>
      <div className="flex items-center justify-between">
        <h3 className="font-medium">Legal holds</h3>
        <Button onClick={() => setSetting(true)}>New hold</Button>
      </div>
      {list.error ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : holds.length === 0 ? (
        <p className="text-dim">No holds. A legal hold keeps everything of one task.</p>
      ) : (
        <Table label="Legal holds" head={["Task", "Reason", "Set by", "Set", ""]}>
          {holds.map((h) => (
            <Row key={h.taskId}>
              <Cell>
                <Id value={h.taskId} />
              </Cell>
              <Cell>{h.reason}</Cell>
              <Cell>{h.setBy}</Cell>
              <Cell>
                <Time at={h.setAt} />
              </Cell>
              <Cell className="text-right">
                <Button small look="danger" aria-label={`Release the hold of ${h.taskId}`} onClick={() => setReleasing(h)}>
                  Release
                </Button>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list}>More holds</More>
      {setting && <SetHold done={refresh} onClose={() => setSetting(false)} />}
      <Confirm
        open={releasing !== undefined}
        onClose={() => setReleasing(undefined)}
        title="Release the hold"
        action="Release"
        danger
        run={async () => {
          await retention.setLegalHold({ taskId: releasing?.taskId ?? "", released: true });
          await refresh();
        }}
      >
        <p>What the rules of retention say is then deleted of this task, too.</p>
      </Confirm>
    </>
  );
}

function SetHold({ done, onClose }: { done: () => Promise<void>; onClose: () => void }) {
  const [task, setTask] = useState("");
  const [reason, setReason] = useState("");
  return (
    <FormDialog
      title="New legal hold"
      action="Keep the task"
      ready={task.trim() !== "" && reason.trim() !== ""}
      onClose={onClose}
      run={async () => {
        await retention.setLegalHold({ taskId: task.trim(), reason: reason.trim() });
        await done();
      }}
    >
      <Field label="Task" hint="Its id, such as task_3q9.">
        <Input value={task} onChange={(e) => setTask(e.target.value)} maxLength={64} autoComplete="off" />
      </Field>
      <Field label="Reason">
        <Input value={reason} onChange={(e) => setReason(e.target.value)} maxLength={500} autoComplete="off" />
      </Field>
    </FormDialog>
  );
}
