import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { byToken } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { Tokens } from "@/features/user/Tokens";
import { NewPassword } from "@/features/user/Users";
import { SessionService } from "@/gen/deckhand/v1/session_pb";
import { UserService } from "@/gen/deckhand/v1/user_pb";
import { Passkeys } from "@/features/passkey/Passkeys";
import { Devices } from "@/features/push/Devices";
import { browserOf } from "./browser";
import { SettingsFrame } from "./SettingsFrame";

const sessions = createClient(SessionService, transport);

// SettingsPage shows what concerns oneself: account, tokens and sessions.
export function SettingsPage() {
  const [making, setMaking] = useState(false);
  return (
    <SettingsFrame>
      <Account />
      <Section title="Your tokens" actions={<Button onClick={() => setMaking(true)}>New token</Button>}>
        <Tokens all={false} making={making} onMade={() => setMaking(false)} />
      </Section>
      <Passkeys />
      <Devices />
      <Sessions />
    </SettingsFrame>
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
