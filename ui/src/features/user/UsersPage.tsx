import { getRouteApi } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { Tabs } from "radix-ui";
import { useState } from "react";
import { useSession } from "@/app/session";
import { Button } from "@/components/Button";
import { Page } from "@/components/Page";
import { useShortcut } from "@/components/shortcuts";
import { may } from "@/features/session/queries";
import { tabs, type Tab } from "./tabs";
import { Teams } from "./Teams";
import { Tokens } from "./Tokens";
import { Users } from "./Users";

const route = getRouteApi("/shell/users");
const one: Record<Tab, string> = { users: "New user", teams: "New team", tokens: "New token" };

// UsersPage is people, teams and tokens: who may what, and for how long.
export function UsersPage() {
  const { tab = "users" } = route.useSearch();
  const navigate = route.useNavigate();
  const admin = may(useSession(), "admin");
  const [making, setMaking] = useState<Tab>();
  const can = admin || tab === "tokens";
  useShortcut("n", one[tab], "Users", () => setMaking(tab), can);
  const part = { making: making === tab, onMade: () => setMaking(undefined) };
  return (
    <Page
      title="Users"
      actions={
        can && (
          <Button look="primary" onClick={() => setMaking(tab)}>
            <Plus aria-hidden className="size-4" /> {one[tab]}
          </Button>
        )
      }
    >
      <Tabs.Root value={tab} onValueChange={(v) => void navigate({ search: { tab: v as Tab }, replace: true })}>
        <Tabs.List aria-label="Users, teams and tokens" className="mb-3 flex gap-1 border-b">
          {tabs.map((t) => (
            <Tabs.Trigger
              key={t}
              value={t}
              className="-mb-px min-h-8 border-b-2 border-transparent px-3 text-dim capitalize data-[state=active]:border-accent data-[state=active]:text-ink"
            >
              {t}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        <Tabs.Content value="users">
          <Users {...part} />
        </Tabs.Content>
        <Tabs.Content value="teams">
          <Teams {...part} />
        </Tabs.Content>
        <Tabs.Content value="tokens">
          <Tokens all={admin} {...part} />
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  );
}
