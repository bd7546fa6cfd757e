import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { toast } from "sonner";
import { byToken } from "@/api/pages";
import { problemOf } from "@/api/error";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Field, Input } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { UserService, type User } from "@/gen/deckhand/v1/user_pb";
import { passwordProblem } from "./passwords";
import { RoleSelect } from "./roles";

const users = createClient(UserService, transport);

// Users lists the people of the organisation, and lets an administrator change
// them.
export function Users(props: { making: boolean; onMade: () => void }) {
  const session = useSession();
  const admin = may(session, "admin");
  const list = useInfiniteQuery(UserService.method.listUsers, { pageSize: 100, pageToken: "", withTotal: true }, byToken);
  const refresh = useRefresh(UserService);
  const [changing, setChanging] = useState<User>();
  const [disabling, setDisabling] = useState<User>();
  const [password, setPassword] = useState<User>();
  const enable = async (u: User) => {
    try {
      await users.updateUser({ userId: u.id, disabled: false });
      await refresh();
      toast.success(`${u.name} can log in again`);
    } catch (e) {
      showError(e);
    }
  };
  if (list.isPending) return <Skeletons />;
  if (list.error) return <Problem error={list.error} retry={() => void list.refetch()} />;
  return (
    <>
      <Table label="Users" head={["Name", "Role", "Teams", "Password", "Created", ...(admin ? [""] : [])]}>
        {list.data.pages.flatMap((page) => page.users).map((u) => (
          <Row key={u.id}>
            <Cell className="font-medium">
              {u.name} {u.id === session.userId && <Badge>you</Badge>} {u.disabled && <Badge tone="bad">disabled</Badge>}
            </Cell>
            <Cell>
              {u.effectiveRole}
              {u.effectiveRole !== u.role && <span className="text-dim"> through a team (own role: {u.role})</span>}
            </Cell>
            <Cell>{u.teams.join(", ") || <span className="text-dim">none</span>}</Cell>
            <Cell>{u.hasPassword ? "set" : <span className="text-dim">none</span>}</Cell>
            <Cell>
              <Time at={u.createdAt} />
            </Cell>
            {admin && (
              <Cell>
                <div className="flex flex-wrap justify-end gap-1">
                  <Button small aria-label={`Change the role of ${u.name}`} onClick={() => setChanging(u)}>
                    Role
                  </Button>
                  <Button small aria-label={`Set the password of ${u.name}`} onClick={() => setPassword(u)}>
                    Password
                  </Button>
                  {u.disabled ? (
                    <Button small aria-label={`Enable ${u.name}`} onClick={() => void enable(u)}>
                      Enable
                    </Button>
                  ) : (
                    <Button small look="danger" aria-label={`Disable ${u.name}`} onClick={() => setDisabling(u)}>
                      Disable
                    </Button>
                  )}
                </div>
              </Cell>
            )}
          </Row>
        ))}
      </Table>
      <More pages={list} shown={list.data.pages.reduce((n, page) => n + page.users.length, 0)}>More users</More>
      {props.making && <NewUser onClose={props.onMade} />}
      {changing && <ChangeRole user={changing} onClose={() => setChanging(undefined)} />}
      {password && <NewPassword user={password} onClose={() => setPassword(undefined)} />}
      <Confirm
        open={disabling !== undefined}
        onClose={() => setDisabling(undefined)}
        title={`Disable ${disabling?.name ?? ""}`}
        action="Disable"
        danger
        typed={disabling?.name}
        run={async () => {
          await users.updateUser({ userId: disabling!.id, disabled: true });
          await refresh();
        }}
      >
        <p>Their sessions and tokens end. Their running tasks continue.</p>
      </Confirm>
    </>
  );
}

function NewUser(props: { onClose: () => void }) {
  const refresh = useRefresh(UserService);
  const [name, setName] = useState("");
  const [role, setRole] = useState("basic");
  const [password, setPassword] = useState("");
  const problem = passwordProblem(password);
  const run = async () => {
    const { user } = await users.createUser({ name: name.trim(), role });
    await refresh();
    if (!password) return;
    try {
      await users.setPassword({ userId: user?.id, password });
      await refresh();
    } catch (e) {
      // The user is there: to make them again would be refused.
      toast.error(`${name.trim()} was created without a password: ${problemOf(e).message}`);
    }
  };
  return (
    <FormDialog title="New user" action="Create user" ready={name.trim() !== "" && !problem} run={run} onClose={props.onClose}>
      <Field label="Name" hint="Letters, digits and . _ @ + -">
        <Input autoFocus value={name} maxLength={100} autoComplete="off" onChange={(e) => setName(e.target.value)} />
      </Field>
      <Field label="Role">
        <RoleSelect value={role} onChange={(e) => setRole(e.target.value)} />
      </Field>
      <Field label="Password" hint="Leave empty for a user who logs in with a token." problem={problem || undefined}>
        <Input type="password" autoComplete="new-password" value={password} onChange={(e) => setPassword(e.target.value)} />
      </Field>
    </FormDialog>
  );
}

function ChangeRole(props: { user: User; onClose: () => void }) {
  const refresh = useRefresh(UserService);
  const [role, setRole] = useState(props.user.role);
  return (
    <FormDialog
      title={`Role of ${props.user.name}`}
      action="Save"
      ready={role !== props.user.role}
      run={async () => {
        await users.updateUser({ userId: props.user.id, role });
        await refresh();
      }}
      onClose={props.onClose}
    >
      <Field label="Role" hint="A team can give a higher role.">
        <RoleSelect value={role} onChange={(e) => setRole(e.target.value)} />
      </Field>
    </FormDialog>
  );
}

// NewPassword sets somebody's password: for oneself it asks for the one before.
export function NewPassword(props: { user: User; onClose: () => void }) {
  const session = useSession();
  const refresh = useRefresh(UserService);
  const own = props.user.id === session.userId;
  const [current, setCurrent] = useState("");
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const [revokeTokens, setRevokeTokens] = useState(false);
  const problem = passwordProblem(password);
  const differs = again !== "" && again !== password ? "The passwords differ." : "";
  return (
    <FormDialog
      title={own ? "Your password" : `Password of ${props.user.name}`}
      action="Set password"
      ready={password !== "" && !problem && again === password && (!own || !props.user.hasPassword || current !== "")}
      run={async () => {
        await users.setPassword({ userId: own ? "" : props.user.id, password, currentPassword: current, revokeTokens });
        await refresh();
        toast.success("Password set.");
      }}
      onClose={props.onClose}
    >
      <p className="text-dim">All {own ? "your other sessions" : `sessions of ${props.user.name}`} end.</p>
      {own && props.user.hasPassword && (
        <Field label="Current password">
          <Input type="password" autoComplete="current-password" value={current} onChange={(e) => setCurrent(e.target.value)} />
        </Field>
      )}
      <Field label="New password" hint="At least 12 characters." problem={problem || undefined}>
        <Input type="password" autoComplete="new-password" value={password} onChange={(e) => setPassword(e.target.value)} />
      </Field>
      <Field label="Repeat new password" problem={differs || undefined}>
        <Input type="password" autoComplete="new-password" value={again} onChange={(e) => setAgain(e.target.value)} />
      </Field>
      <label className="flex min-h-6 items-center gap-2">
        <input type="checkbox" checked={revokeTokens} onChange={(e) => setRevokeTokens(e.target.checked)} /> Also revoke all API tokens
      </label>
    </FormDialog>
  );
}
