import { create } from "@bufbuild/protobuf";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Empty } from "@/components/Empty";
import { Field, Input, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { Secret } from "@/components/Secret";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { TokenKind, TokenService, type Token } from "@/gen/deckhand/v1/token_pb";
import { UserService } from "@/gen/deckhand/v1/user_pb";
import { RoleSelect } from "./roles";

const tokens = createClient(TokenService, transport);

// lifetimes are the choices of a token's lifetime, in days; 0 for no expiry.
const lifetimes: [days: number, word: string][] = [
  [1, "1 day"],
  [30, "30 days"],
  [90, "90 days"],
  [365, "1 year"],
  [0, "No expiry"],
];

// servicesOf reads names of services, apart by commas or spaces.
export const servicesOf = (text: string) => [...new Set(text.split(/[\s,]+/).filter((word) => word !== ""))];

// Tokens lists tokens: one's own, or everybody's.
export function Tokens(props: { all: boolean; making: boolean; onMade: () => void }) {
  const list = useInfiniteQuery(TokenService.method.listTokens, { all: props.all, pageSize: 100, pageToken: "", withTotal: true }, byToken);
  const refresh = useRefresh(TokenService);
  const [revoking, setRevoking] = useState<Token>();
  const [secret, setSecret] = useState<{ name: string; secret: string }>();
  if (list.isPending) return <Skeletons />;
  if (list.error) return <Problem error={list.error} retry={() => void list.refetch()} />;
  const shown = list.data.pages.flatMap((page) => page.tokens);
  return (
    <>
      {shown.length === 0 ? (
        <Empty title="No tokens yet" command="deckhand token create ci --role basic --ttl 720h">
          Programs call the hub with a token, on behalf of its owner.
        </Empty>
      ) : (
        <Table label="Tokens" head={["Name", "Owner", "Access", "Created", "Last used", "Expires", ""]}>
          {shown.map((t) => (
            <Row key={t.id}>
              <Cell className="font-medium">{t.name}</Cell>
              <Cell>{t.kind === TokenKind.WORKER ? <Badge tone="info">worker</Badge> : t.userName}</Cell>
              <Cell>
                {scope(t)}
                {t.services.length > 0 && <div className="text-xs text-dim">{t.services.join(", ")}</div>}
              </Cell>
              <Cell>
                <Time at={t.createdAt} />
                {t.createdBy && t.createdBy !== t.userName && <div className="text-xs text-dim">by {t.createdBy}</div>}
              </Cell>
              <Cell>
                <Time at={t.usedAt} />
              </Cell>
              <Cell>
                <Time at={t.expiresAt} />
              </Cell>
              <Cell className="text-right">
                <Button small look="danger" aria-label={`Revoke ${t.name}`} onClick={() => setRevoking(t)}>
                  Revoke
                </Button>
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      <More pages={list} shown={shown.length}>Older tokens</More>
      {props.making && <NewToken own={!props.all} onClose={props.onMade} onMade={(name, s) => setSecret({ name, secret: s })} />}
      {secret && (
        <Secret
          title={`Token ${secret.name}`}
          secret={secret.secret}
          hint="Set it in the program that uses it, for example as DECKHAND_TOKEN."
          onClose={() => setSecret(undefined)}
        />
      )}
      <Confirm
        open={revoking !== undefined}
        onClose={() => setRevoking(undefined)}
        title={`Revoke ${revoking?.name ?? ""}`}
        action="Revoke"
        danger
        run={async () => {
          await tokens.revokeToken({ tokenId: revoking!.id });
          await refresh();
        }}
      >
        <p>It stops working within two seconds, and its sessions end. This cannot be undone.</p>
      </Confirm>
    </>
  );
}

function scope(t: Token): string {
  if (t.kind === TokenKind.WORKER) return "worker";
  const what = t.role ? `at most ${t.role}` : "same as owner";
  const limits = [what, ...(t.readOnly ? ["read-only"] : []), ...(t.mcp ? ["MCP only"] : []), ...(t.decide ? ["decides through MCP"] : [])];
  return limits.join(", ");
}

function NewToken(props: { own: boolean; onClose: () => void; onMade: (name: string, secret: string) => void }) {
  const admin = may(useSession(), "admin");
  const refresh = useRefresh(TokenService);
  const others = admin && !props.own;
  const people = useInfiniteQuery(UserService.method.listUsers, { pageSize: 500, pageToken: "" }, { ...byToken, enabled: others });
  useRest(people);
  const [name, setName] = useState("");
  const [user, setUser] = useState("");
  const [role, setRole] = useState("");
  const [readOnly, setReadOnly] = useState(false);
  const [decide, setDecide] = useState(false);
  const [services, setServices] = useState("");
  const [days, setDays] = useState(90);
  const worker = user === "worker:";
  const run = async () => {
    const { secret } = await tokens.createToken({
      kind: worker ? TokenKind.WORKER : TokenKind.USER,
      name: name.trim(),
      userId: worker ? "" : user,
      role: worker ? "" : role,
      readOnly: !worker && readOnly,
      decide: !worker && !readOnly && decide,
      services: worker ? [] : servicesOf(services),
      ttl: days > 0 ? create(DurationSchema, { seconds: BigInt(days) * 86_400n }) : undefined,
    });
    props.onMade(name.trim(), secret);
    await refresh();
  };
  return (
    <FormDialog title="New token" action="Create token" ready={name.trim() !== ""} run={run} onClose={props.onClose}>
      <Field label="Name" hint="Used by, for example ci.">
        <Input autoFocus value={name} maxLength={100} autoComplete="off" onChange={(e) => setName(e.target.value)} />
      </Field>
      {others && (
        <Field label="Owner">
          <Select value={user} onChange={(e) => setUser(e.target.value)}>
            <option value="">me</option>
            {people.data?.pages.flatMap((page) => page.users).map((u) => (
              <option key={u.id} value={u.id}>
                {u.name}
              </option>
            ))}
            <option value="worker:">a worker</option>
          </Select>
        </Field>
      )}
      {!worker && (
        <>
          <Field label="Maximum role">
            <RoleSelect none="same as owner" value={role} onChange={(e) => setRole(e.target.value)} />
          </Field>
          <label className="flex min-h-6 items-center gap-2">
            <input type="checkbox" checked={readOnly} onChange={(e) => setReadOnly(e.target.checked)} /> Read-only
          </label>
          <label className="flex min-h-6 items-center gap-2">
            <input type="checkbox" checked={decide && !readOnly} disabled={readOnly} onChange={(e) => setDecide(e.target.checked)} /> Decide inbox items through MCP
          </label>
          <Field label="Services" hint="Such as TaskService, InboxService. Leave empty for all.">
            <Input value={services} onChange={(e) => setServices(e.target.value)} />
          </Field>
        </>
      )}
      <Field label="Expires after">
        <Select value={days} onChange={(e) => setDays(Number(e.target.value))}>
          {lifetimes.map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </Select>
      </Field>
    </FormDialog>
  );
}
