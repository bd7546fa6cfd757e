import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ChevronDown, LogOut, Monitor, Moon, Sun } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { Button } from "@/components/Button";
import { forgetSession, sessions } from "@/features/session/queries";
import { useSession } from "./session";
import { setTheme, useTheme, type Theme } from "./theme";

const themes: [Theme, string, typeof Sun][] = [
  ["light", "Light", Sun],
  ["dark", "Dark", Moon],
  ["system", "Use system theme", Monitor],
];

const entry =
  "flex min-h-8 cursor-pointer items-center gap-2 rounded px-2 outline-none data-[highlighted]:bg-raised";

// AccountMenu has the theme and the way out.
export function AccountMenu() {
  const session = useSession();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const theme = useTheme();
  const logout = async () => {
    await sessions.deleteSession({});
    forgetSession(queries);
    await navigate({ to: "/login" });
    queries.clear();
  };
  return (
    <DropdownMenu.Root>
      <DropdownMenu.Trigger asChild>
        <Button look="quiet" className="justify-start px-2">
          <span className="sr-only">Account of </span>
          <span aria-hidden className="grid size-5 place-items-center rounded-full bg-raised text-xs text-ink">
            {session.userName.slice(0, 1).toUpperCase()}
          </span>
          <span className="min-w-0 flex-1 truncate text-left max-md:sr-only max-sm:not-sr-only">{session.userName}</span>
          <ChevronDown aria-hidden className="size-3.5 max-md:hidden" />
        </Button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align="start"
          side="top"
          className="z-50 w-56 rounded-md border bg-panel p-1 text-sm shadow-lg"
        >
          <div className="px-2 py-1.5 text-dim">
            {session.organisationName} · {session.role}
          </div>
          <DropdownMenu.Separator className="my-1 border-t" />
          <DropdownMenu.RadioGroup value={theme} onValueChange={(v) => setTheme(v as Theme)}>
            {themes.map(([value, label, Icon]) => (
              <DropdownMenu.RadioItem key={value} value={value} className={entry}>
                <Icon aria-hidden className="size-4" />
                <span className="flex-1">{label}</span>
                <DropdownMenu.ItemIndicator>✓</DropdownMenu.ItemIndicator>
              </DropdownMenu.RadioItem>
            ))}
          </DropdownMenu.RadioGroup>
          <DropdownMenu.Separator className="my-1 border-t" />
          <DropdownMenu.Item className={entry} onSelect={() => void logout()}>
            <LogOut aria-hidden className="size-4" /> Log out
          </DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
