import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { setTheme, useTheme, type Theme } from "@/app/theme";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Id } from "@/components/Id";
import { Kbd } from "@/components/Kbd";
import { Page } from "@/components/Page";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { useShortcutList } from "@/components/shortcuts";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { Tokens } from "@/features/user/Tokens";
import { NewPassword } from "@/features/user/Users";
import { ControlService, KillScope, type Hold } from "@/gen/deckhand/v1/control_pb";
import { SessionService } from "@/gen/deckhand/v1/session_pb";
import { UserService } from "@/gen/deckhand/v1/user_pb";
import { Passkeys } from "@/features/passkey/Passkeys";
import { Devices } from "@/features/push/Devices";
import { AccessRules } from "./AccessRules";
import { AllowRules } from "./AllowRules";
import { browserOf } from "./browser";
import { ComfortSection } from "./ComfortSection";

const control = createClient(ControlService, transport);
const sessions = createClient(SessionService, transport);

// SettingsPage shows the user's account, tokens and sessions, holds, rules, and the
// theme of this browser.
export function SettingsPage() {
  const [making, setMaking] = useState(false);
  const admin = may(useSession(), "admin");
  return (
    <Page title="Settings">
      <div>
        <Account />
        <Section title="Your tokens" actions={<Button onClick={() => setMaking(true)}>New token</Button>}>
          <Tokens all={false} making={making} onMade={() => setMaking(false)} />
        </Section>
        <Passkeys />
        <Devices />
        <Sessions />
        <Holds />
        <AllowRules />
        {admin && <AccessRules />}
        <Looks />
        <ComfortSection />
        <Keys />
      </div>
    </Page>
  );
}

function Account() {
  const session = useSession();
  const me = useQuery(UserService.method.getUser, { userId: session.userId });
  const [changing, setChanging] = useState(false);
  return (
    <Section
      title="Your account"
      actions={
        me.data?.user && (
          <Button onClick={() => setChanging(true)}>{me.data.user.hasPassword ? "Change password" : "Set password"}</Button>
        )
      }
    >
      {me.error && <Problem error={me.error} retry={() => void me.refetch()} />}
      <dl className="grid grid-cols-[8rem_minmax(0,1fr)] gap-y-1 rounded-lg border bg-panel p-3">
        <dt className="text-dim">Name</dt>
        <dd>{session.userName}</dd>
        <dt className="text-dim">Organisation</dt>
        <dd>{session.organisationName}</dd>
        <dt className="text-dim">Role</dt>
        <dd>
          {session.role}
          {session.readOnly && ", read-only"}
        </dd>
        <dt className="text-dim">Teams</dt>
        <dd>{me.data?.user?.teams.join(", ") || "none"}</dd>
      </dl>
      {changing && me.data?.user && <NewPassword user={me.data.user} onClose={() => setChanging(false)} />}
    </Section>
  );
}

function Sessions() {
  const own = useSession();
  const list = useInfiniteQuery(SessionService.method.listSessions, { pageSize: 100, pageToken: "" }, byToken);
  const refresh = useRefresh(SessionService);
  const end = async (id: string) => {
    try {
      await sessions.deleteSession({ sessionId: id });
      await refresh();
    } catch (e) {
      showError(e);
    }
  };
  return (
    <Section title="Sessions">
      {list.isPending ? (
        <Skeletons rows={2} />
      ) : list.error ? (
        <Problem error={list.error} retry={() => void list.refetch()} />
      ) : (
        <Table label="Sessions" head={["Browser", "Address", "Method", "Created", "Last seen", "Expires", ""]}>
          {list.data.pages.flatMap((page) => page.sessions).map((s) => (
            <Row key={s.id}>
              <Cell>
                <span title={s.userAgent}>{browserOf(s.userAgent)}</span> {s.id === own.id && <Badge tone="good">this session</Badge>}
              </Cell>
              <Cell>{s.address}</Cell>
              <Cell>{s.method}</Cell>
              <Cell>
                <Time at={s.createdAt} />
              </Cell>
              <Cell>
                <Time at={s.seenAt} />
              </Cell>
              <Cell>
                <Time at={s.expiresAt} />
              </Cell>
              <Cell className="text-right">
                {s.id !== own.id && (
                  <Button small look="danger" aria-label={`End the session from ${s.address}`} onClick={() => void end(s.id)}>
                    End
                  </Button>
                )}
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list}>Older sessions</More>
    </Section>
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
  const refresh = useRefresh(ControlService);
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
      <Confirm
        open={releasing !== undefined}
        onClose={() => setReleasing(undefined)}
        title="Release hold"
        action="Release"
        reason
        run={async (reason) => {
          await control.releaseHold({ holdId: releasing!.id, reason });
          await refresh();
        }}
      >
        <p>New tasks can start again. Cancelled tasks stay cancelled.</p>
      </Confirm>
    </Section>
  );
}

const themes: [Theme, string][] = [
  ["light", "Light"],
  ["dark", "Dark"],
  ["system", "Use system theme"],
];

function Looks() {
  const theme = useTheme();
  return (
    <Section title="Theme">
      <div role="radiogroup" aria-label="Theme" className="flex flex-wrap gap-4 rounded-lg border bg-panel p-3">
        {themes.map(([value, label]) => (
          <label key={value} className="flex min-h-6 items-center gap-2">
            <input type="radio" name="theme" checked={theme === value} onChange={() => setTheme(value)} /> {label}
          </label>
        ))}
      </div>
    </Section>
  );
}

function Keys() {
  const all = useShortcutList();
  return (
    <Section title="Keyboard shortcuts">
      <p className="text-dim">
        Press <Kbd keys="?" /> on any page to list its shortcuts.
      </p>
      <dl className="grid grid-cols-[repeat(auto-fill,minmax(min(100%,15rem),1fr))] gap-x-6 gap-y-1 rounded-lg border bg-panel p-3">
        {all.map((s) => (
          <div key={`${s.group} ${s.keys}`} className="flex items-center gap-3">
            <dt className="flex-1">{s.what}</dt>
            <dd>
              <Kbd keys={s.keys.replace("mod+", "Ctrl+")} />
            </dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}
