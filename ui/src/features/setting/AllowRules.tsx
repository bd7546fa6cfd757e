import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Literal } from "@/components/Literal";
import { More } from "@/components/More";
import { line } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { PolicyService, type AllowRule } from "@/gen/deckhand/v1/policy_pb";

const policies = createClient(PolicyService, transport);

// AllowRules lists the calls that people always allow. Users revoke their own rules,
// admins revoke any.
export function AllowRules() {
  const session = useSession();
  const [past, setPast] = useState(false);
  const [revoking, setRevoking] = useState<AllowRule>();
  const refresh = useRefresh(PolicyService);
  // A rule that ends has no event: it is asked for again.
  const list = useInfiniteQuery(PolicyService.method.listAllowRules, { past, pageSize: 100, pageToken: "" }, { ...byToken, refetchInterval: 30_000 });
  const rules = list.data?.pages.flatMap((page) => page.rules) ?? [];
  return (
    <Section
      title="Always allowed"
      actions={
        <label className="flex min-h-6 items-center gap-2">
          <input type="checkbox" checked={past} onChange={(e) => setPast(e.target.checked)} /> Show expired
        </label>
      }
    >
      {list.isPending ? (
        <Skeletons rows={2} />
      ) : list.error ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : rules.length === 0 ? (
        <p className="rounded-lg border bg-panel p-3 text-dim">No rules yet. Answering an approval with “Always allow” creates one.</p>
      ) : (
        <Table label="Always allowed" head={["Call", "Agent", "Created by", "Created", "Expires", ""]}>
          {rules.map((r) => (
            <Row key={r.id}>
              <Cell>
                <Literal className="font-mono text-xs" text={r.tool} />
                <div className="text-xs break-words text-dim"><Literal text={r.description} /></div>
              </Cell>
              <Cell>{r.agentName || "every agent"}</Cell>
              <Cell>{r.createdBy}</Cell>
              <Cell>
                <Time at={r.createdAt} />
              </Cell>
              <Cell>
                {r.revokedAt ? (
                  <>
                    revoked by {r.revokedBy} <Time at={r.revokedAt} />
                  </>
                ) : (
                  <Time at={r.expiresAt} none="never" />
                )}
              </Cell>
              <Cell className="text-right">
                {!r.revokedAt && (may(session, "admin") || r.createdBy === session.userName) && (
                  <Button small look="danger" aria-label={`Revoke ${line(r.description || r.tool)}`} onClick={() => setRevoking(r)}>
                    Revoke
                  </Button>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list}>Older rules</More>
      <Confirm
        open={revoking !== undefined}
        onClose={() => setRevoking(undefined)}
        title="Revoke rule"
        action="Revoke"
        danger
        run={async () => {
          await policies.revokeAllowRule({ ruleId: revoking!.id });
          await refresh();
        }}
      >
        <p>The next such call will ask again.</p>
      </Confirm>
    </Section>
  );
}
