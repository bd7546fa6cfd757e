import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Field, Input, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { AccessService, type AccessRule } from "@/gen/deckhand/v1/access_pb";

const access = createClient(AccessService, transport);
const whats: Record<string, string> = { "*": "all calls", admin: "calls that need an admin" };

// AccessRules lists and edits the networks from which calls are accepted. It is for
// admins.
export function AccessRules() {
  const [setting, setSetting] = useState<AccessRule | "new">();
  const [leaving, setLeaving] = useState<string>();
  const refresh = useRefresh(AccessService);
  const list = useInfiniteQuery(AccessService.method.listAccessRules, { pageSize: 100, pageToken: "" }, byToken);
  const rules = list.data?.pages.flatMap((page) => page.rules) ?? [];
  return (
    <Section title="Network access" actions={<Button onClick={() => setSetting("new")}>New rule</Button>}>
      {list.isPending ? (
        <Skeletons rows={2} />
      ) : list.error ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : rules.length === 0 ? (
        <p className="rounded-lg border bg-panel p-3 text-dim">
          No rules: calls are accepted from every network. A rule restricts calls to some networks. Calls from the hub&apos;s own machine are always accepted.
        </p>
      ) : (
        <Table label="Access rules" head={["Applies to", "Networks", "Changed by", "Changed", ""]}>
          {rules.map((r) => (
            <Row key={r.what}>
              <Cell>{whats[r.what] ?? <span className="font-mono text-xs break-all">{r.what}</span>}</Cell>
              <Cell className="font-mono text-xs">{r.networks.join(", ")}</Cell>
              <Cell>{r.changedBy}</Cell>
              <Cell>
                <Time at={r.changedAt} />
              </Cell>
              <Cell className="text-right">
                <div className="flex justify-end gap-1">
                  <Button small aria-label={`Change the rule of ${r.what}`} onClick={() => setSetting(r)}>
                    Change
                  </Button>
                  <Button small look="danger" aria-label={`Delete the rule of ${r.what}`} onClick={() => setLeaving(r.what)}>
                    Delete
                  </Button>
                </div>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list}>More rules</More>
      {setting && <SetRule of={setting === "new" ? undefined : setting} done={refresh} onClose={() => setSetting(undefined)} />}
      <Confirm
        open={leaving !== undefined}
        onClose={() => setLeaving(undefined)}
        title="Delete rule"
        action="Delete"
        danger
        run={async () => {
          await access.deleteAccessRule({ what: leaving });
          await refresh();
        }}
      >
        <p>These calls are then accepted from every network, unless another rule applies to them.</p>
      </Confirm>
    </Section>
  );
}

function SetRule(props: { of?: AccessRule; done: () => Promise<void>; onClose: () => void }) {
  const [what, setWhat] = useState(props.of?.what ?? "");
  const [text, setText] = useState(props.of?.networks.join("\n") ?? "");
  const [force, setForce] = useState(false);
  const networks = text.split(/[\s,]+/).filter(Boolean);
  return (
    <FormDialog
      title={props.of ? "Change rule" : "New rule"}
      action="Save"
      ready={what.trim() !== "" && networks.length > 0}
      onClose={props.onClose}
      run={async () => {
        await access.setAccessRule({ what: what.trim(), networks, force });
        await props.done();
      }}
    >
      <Field label="Applies to" hint="* for all calls of users, admin for calls that need an admin, or a service such as NodeExecService.">
        <Input value={what} onChange={(e) => setWhat(e.target.value)} maxLength={130} autoComplete="off" disabled={props.of !== undefined} />
      </Field>
      <Field label="Networks" hint="One network per line, such as 10.20.0.0/16.">
        <TextArea rows={3} value={text} onChange={(e) => setText(e.target.value)} />
      </Field>
      <label className="flex min-h-6 items-center gap-2">
        <input type="checkbox" checked={force} onChange={(e) => setForce(e.target.checked)} /> Save even if it locks me out
      </label>
    </FormDialog>
  );
}
