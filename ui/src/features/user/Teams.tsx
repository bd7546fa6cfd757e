import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import { X } from "lucide-react";
import { useState } from "react";
import { byToken, useRest } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Confirm } from "@/components/Confirm";
import { Empty } from "@/components/Empty";
import { Field, Input, Select } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { More } from "@/components/More";
import { Problem } from "@/components/Problem";
import { showError } from "@/components/showError";
import { Skeletons } from "@/components/Skeleton";
import { Cell, Row, Table } from "@/components/Table";
import { may } from "@/features/session/queries";
import { TeamService, type Team } from "@/gen/deckhand/v1/team_pb";
import { UserService } from "@/gen/deckhand/v1/user_pb";
import { RoleSelect } from "./roles";

const teams = createClient(TeamService, transport);

// useChanged asks again for teams, and for what users may by them.
function useChanged() {
  const ofTeams = useRefresh(TeamService);
  const ofUsers = useRefresh(UserService);
  return () => Promise.all([ofTeams(), ofUsers()]);
}

// Teams lists teams with their members.
export function Teams(props: { making: boolean; onMade: () => void }) {
  const admin = may(useSession(), "admin");
  const list = useInfiniteQuery(TeamService.method.listTeams, { pageSize: 100, pageToken: "" }, byToken);
  const people = useInfiniteQuery(UserService.method.listUsers, { pageSize: 500, pageToken: "" }, byToken);
  useRest(people);
  const changed = useChanged();
  const [deleting, setDeleting] = useState<Team>();
  const change = async (run: () => Promise<unknown>) => {
    try {
      await run();
      await changed();
    } catch (e) {
      showError(e);
    }
  };
  if (list.isPending) return <Skeletons />;
  if (list.error) return <Problem error={list.error} retry={() => void list.refetch()} />;
  const all = list.data.pages.flatMap((page) => page.teams);
  return (
    <>
      {all.length === 0 ? (
        <Empty title="No teams yet" command="deckhand team create operators --role advanced">
          Members of a team have at least its role.
        </Empty>
      ) : (
        <Table label="Teams" head={["Name", "Role", "Members", ...(admin ? [""] : [])]}>
          {all.map((t) => {
            const others = (people.data?.pages.flatMap((page) => page.users) ?? []).filter((u) => !t.members.includes(u.name));
            return (
              <Row key={t.id}>
                <Cell className="font-medium">{t.name}</Cell>
                <Cell>
                  {admin ? (
                    <RoleSelect
                      aria-label={`Role of ${t.name}`}
                      value={t.role}
                      onChange={(e) => void change(() => teams.updateTeam({ teamId: t.id, role: e.target.value }))}
                    />
                  ) : (
                    t.role
                  )}
                </Cell>
                <Cell>
                  <ul className="flex flex-wrap items-center gap-1">
                    {t.members.map((name) => (
                      <li key={name} className="inline-flex items-center rounded-full border px-2 text-xs">
                        {name}
                        {admin && (
                          <button
                            type="button"
                            className="grid size-6 place-items-center text-dim hover:text-bad"
                            aria-label={`Remove ${name} from ${t.name}`}
                            onClick={() => void change(() => teams.removeTeamMember({ teamId: t.id, userId: name }))}
                          >
                            <X aria-hidden className="size-3" />
                          </button>
                        )}
                      </li>
                    ))}
                    {admin && others.length > 0 && (
                      <li>
                        <Select
                          aria-label={`Add a member to ${t.name}`}
                          value=""
                          onChange={(e) => void change(() => teams.addTeamMember({ teamId: t.id, userId: e.target.value }))}
                        >
                          <option value="">Add…</option>
                          {others.map((u) => (
                            <option key={u.id} value={u.id}>
                              {u.name}
                            </option>
                          ))}
                        </Select>
                      </li>
                    )}
                  </ul>
                </Cell>
                {admin && (
                  <Cell className="text-right">
                    <Button small look="danger" aria-label={`Delete ${t.name}`} onClick={() => setDeleting(t)}>
                      Delete
                    </Button>
                  </Cell>
                )}
              </Row>
            );
          })}
        </Table>
      )}
      <More pages={list}>More teams</More>
      {props.making && <NewTeam onClose={props.onMade} />}
      <Confirm
        open={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        title={`Delete ${deleting?.name ?? ""}`}
        action="Delete"
        danger
        typed={deleting?.name}
        run={async () => {
          await teams.deleteTeam({ teamId: deleting!.id });
          await changed();
        }}
      >
        <p>Its members keep their own roles.</p>
      </Confirm>
    </>
  );
}

function NewTeam(props: { onClose: () => void }) {
  const changed = useChanged();
  const [name, setName] = useState("");
  const [role, setRole] = useState("basic");
  return (
    <FormDialog
      title="New team"
      action="Create team"
      ready={name.trim() !== ""}
      run={async () => {
        await teams.createTeam({ name: name.trim(), role });
        await changed();
      }}
      onClose={props.onClose}
    >
      <Field label="Name">
        <Input autoFocus value={name} maxLength={100} onChange={(e) => setName(e.target.value)} />
      </Field>
      <Field label="Role" hint="Members have at least this role.">
        <RoleSelect value={role} onChange={(e) => setRole(e.target.value)} />
      </Field>
    </FormDialog>
  );
}
