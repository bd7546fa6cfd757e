import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { byToken } from "@/api/pages";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Id } from "@/components/Id";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { ControlService, KillScope, type Hold } from "@/gen/deckhand/v1/control_pb";
import { AccessRules } from "./AccessRules";
import { AllowRules } from "./AllowRules";
import { ReleaseHold } from "./ReleaseHold";
import { Retention } from "./Retention";
import { SettingsFrame } from "./SettingsFrame";
import { TokenLimits } from "./TokenLimits";
import { Vault } from "./Vault";

// OrganisationPage shows what holds for everybody: holds, rules, networks, and the
// keys of the vault.
export function OrganisationPage() {
  const admin = may(useSession(), "admin");
  return (
    <SettingsFrame>
      <Holds />
      <AllowRules />
      {admin && <AccessRules />}
      {admin && <TokenLimits />}
      {admin && <Retention />}
      {admin && <Vault />}
    </SettingsFrame>
  );
}

const scopes: Record<KillScope, string> = {
  [KillScope.UNSPECIFIED]: "",
  [KillScope.TASK]: "task",
  [KillScope.AGENT]: "agent",
  [KillScope.TRIGGER]: "trigger",
  [KillScope.NODE]: "node",
  [KillScope.LINEAGE]: "lineage",
  [KillScope.ORGANISATION]: "whole organisation",
};

function Holds() {
  const session = useSession();
  const [released, setReleased] = useState(false);
  // No event tells of a hold of a scope without a task: it is asked for anew.
  const list = useInfiniteQuery(ControlService.method.listHolds, { released, pageSize: 100, pageToken: "" }, { ...byToken, refetchInterval: 15_000 });
  const holds = list.data?.pages.flatMap((page) => page.holds) ?? [];
  const [releasing, setReleasing] = useState<Hold>();
  return (
    <Section
      title="Holds"
      actions={
        <label className="flex min-h-6 items-center gap-2">
          <input type="checkbox" checked={released} onChange={(e) => setReleased(e.target.checked)} /> Show released
        </label>
      }
    >
      {list.isPending ? (
        <Skeletons rows={2} />
      ) : list.error ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : holds.length === 0 ? (
        <p className="rounded-lg border bg-panel p-3 text-dim">
          No holds. Killing an agent, node or the organisation leaves a hold so that nothing restarts by itself.
        </p>
      ) : (
        <Table label="Holds" head={["Scope", "Reason", "Held by", "Created", "Released", ""]}>
          {holds.map((h) => (
            <Row key={h.id}>
              <Cell>
                {scopes[h.scope]} {h.scope !== KillScope.ORGANISATION && <Id value={h.objectId} />}
              </Cell>
              <Cell className="max-w-80 break-words">{h.reason || <span className="text-dim">no reason given</span>}</Cell>
              <Cell>{h.heldBy}</Cell>
              <Cell>
                <Time at={h.createdAt} />
              </Cell>
              <Cell>{h.releasedAt ? <Time at={h.releasedAt} /> : "no"}</Cell>
              <Cell className="text-right">
                {!h.releasedAt && may(session, "admin") && (
                  <Button small aria-label={`Release the hold on ${scopes[h.scope]}`} onClick={() => setReleasing(h)}>
                    Release
                  </Button>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list}>Older holds</More>
      <ReleaseHold hold={releasing} onClose={() => setReleasing(undefined)} />
    </Section>
  );
}
