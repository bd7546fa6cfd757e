import { useQuery } from "@connectrpc/connect-query";
import { useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useRouter } from "@tanstack/react-router";
import { Search, Wifi, WifiOff } from "lucide-react";
import { lazy, Suspense, useEffect, useState } from "react";
import { Toaster } from "sonner";
import { cx } from "@/components/cx";
import { Kbd } from "@/components/Kbd";
import { ShortcutsProvider, useShortcut } from "@/components/shortcuts";
import { may } from "@/features/session/queries";
import { millis } from "@/components/Time";
import { useFavicon } from "@/features/inbox/favicon";
import { untilBack } from "@/features/inbox/snoozes";
import { InboxService } from "@/gen/deckhand/v1/inbox_pb";
import { LiveProvider, useLiveStatus } from "@/live/context";
import { Holds, Lost, useLost } from "./Banners";
import { fetchAll } from "./chunks";
import { Announcer } from "./Announcer";
import { BottomBar } from "./BottomBar";
import { nav, type NavItem } from "./nav";
import { Restarting } from "./Restarting";
import { useSession } from "./session";
import { useDark } from "./theme";

// Menus and dialogs are not needed to show a page.
const AccountMenu = lazy(() => import("./AccountMenu").then((m) => ({ default: m.AccountMenu })));
const Palette = lazy(() => import("./Palette").then((m) => ({ default: m.Palette })));
const Sheet = lazy(() => import("./Sheet").then((m) => ({ default: m.Sheet })));

// Shell surrounds every page: navigation, palette, shortcuts, toasts, and the event
// stream.
export function Shell() {
  const session = useSession();
  const queries = useQueryClient();
  const dark = useDark();
  return (
    <LiveProvider who={`${session.organisationId} ${session.userId}`} queries={queries}>
      <ShortcutsProvider>
        <Frame />
        <Toaster theme={dark ? "dark" : "light"} position="bottom-right" closeButton richColors={false} />
      </ShortcutsProvider>
    </LiveProvider>
  );
}

function Frame() {
  const session = useSession();
  const navigate = useNavigate();
  const [palette, setPalette] = useState(false);
  const [sheet, setSheet] = useState(false);
  useShortcut("mod+k", "Search or run a command", "Everywhere", () => setPalette((open) => !open));
  useShortcut("/", "Search or run a command", "Everywhere", () => setPalette(true));
  useShortcut("?", "Show keyboard shortcuts", "Everywhere", () => setSheet(true));
  const items = nav.filter((item) => !item.role || may(session, item.role));
  const lost = useLost();
  const router = useRouter();
  useEffect(() => fetchAll(router), [router]);
  return (
    <div className="grid h-full grid-cols-[13rem_minmax(0,1fr)] grid-rows-[minmax(0,1fr)] max-md:grid-cols-[3.25rem_minmax(0,1fr)] max-sm:grid-cols-1 max-sm:grid-rows-[minmax(0,1fr)_auto]">
      <a
        href="#main"
        onClick={(e) => {
          // A link to a place would leave the page, below a <base>.
          e.preventDefault();
          document.getElementById("main")?.focus();
        }}
        className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:bg-panel focus:p-2"
      >
        Skip to the page
      </a>
      <header className="flex min-h-0 flex-col gap-3 border-r bg-panel p-2 max-sm:hidden">
        <Link to="/fleet" className="flex items-center gap-2 px-2 pt-2 font-semibold">
          <span aria-hidden className="grid size-6 place-items-center rounded-md bg-accent text-accent-ink">
            D
          </span>
          <span className="max-md:sr-only">Deckhand</span>
        </Link>
        <button
          type="button"
          onClick={() => setPalette(true)}
          className="flex min-h-8 items-center gap-2 rounded-md border px-2 text-dim hover:text-ink"
        >
          <Search aria-hidden className="size-4 shrink-0" />
          <span className="flex-1 text-left max-md:sr-only">Search</span>
          <span className="max-md:hidden">
            <Kbd keys="/" />
          </span>
        </button>
        <nav aria-label="Main" className="min-h-0 flex-1 space-y-3 overflow-y-auto">
          {[...new Set(items.map((item) => item.section))].map((section) => (
            <div key={section}>
              <div className="px-2 pb-1 text-xs text-dim max-md:sr-only">{section}</div>
              <ul>
                {items
                  .filter((item) => item.section === section)
                  .map((item) => (
                    <li key={item.to}>
                      <NavLink item={item} go={() => void navigate({ to: item.to })} />
                    </li>
                  ))}
              </ul>
            </div>
          ))}
        </nav>
        <LiveMark />
        <Account />
      </header>
      <div className="flex min-h-0 min-w-0 flex-col">
        {lost !== undefined && <Lost since={lost} />}
        <Restarting lost={lost !== undefined} />
        <Holds />
        <main
          id="main"
          tabIndex={-1}
          data-stale={lost !== undefined || undefined}
          className="min-h-0 flex-1 overflow-y-auto outline-none data-stale:opacity-75 data-stale:grayscale"
        >
          <Outlet />
        </main>
      </div>
      <BottomBar
        items={items}
        count={<InboxCount />}
        onSearch={() => setPalette(true)}
        foot={
          <div className="flex flex-wrap items-center gap-3 border-t pt-3">
            <LiveMark words />
            <Account />
          </div>
        }
      />
      <Announcer />
      <Suspense fallback={null}>
        {palette && <Palette items={items} onClose={() => setPalette(false)} />}
        {sheet && <Sheet onClose={() => setSheet(false)} />}
      </Suspense>
    </div>
  );
}

function NavLink({ item, go }: { item: NavItem; go: () => void }) {
  useShortcut(`g ${item.key}`, `Go to ${item.label}`, "Go", go);
  const Icon = item.icon;
  return (
    <Link
      to={item.to}
      title={item.label}
      className="flex min-h-8 items-center gap-2 rounded-md px-2 text-dim hover:bg-raised hover:text-ink aria-[current=page]:bg-raised aria-[current=page]:font-medium aria-[current=page]:text-ink"
    >
      <Icon aria-hidden className="size-4 shrink-0" />
      <span className="flex-1 max-md:sr-only">{item.label}</span>
      {item.to === "/inbox" && <InboxCount />}
    </Link>
  );
}

const most = 99;

// InboxCount is how many things wait for a person.
function InboxCount() {
  // Items of no task come without an event of one.
  const { data } = useQuery(InboxService.method.listInbox, { pageSize: 1 }, { refetchInterval: (q) => untilBack(millis(q.state.data?.nextSnoozeEndsAt), Date.now(), 60_000) });
  const n = data?.counts.reduce((sum, c) => sum + c.items, 0) ?? 0;
  useFavicon(n);
  if (n === 0) return null;
  return (
    <span className="rounded-full bg-accent px-1.5 text-xs font-semibold text-accent-ink" data-testid="inbox-count">
      {n > most ? `${most}+` : n}
      <span className="sr-only"> waiting</span>
    </span>
  );
}

// LiveMark shows whether the page is up to date.
function LiveMark({ words }: { words?: boolean }) {
  const status = useLiveStatus();
  const live = status === "live";
  return (
    <div
      role="status"
      data-live={status}
      className={cx("flex items-center gap-2 px-2 text-xs", live ? "text-dim" : "text-warn")}
    >
      {live ? <Wifi aria-hidden className="size-3.5 shrink-0" /> : <WifiOff aria-hidden className="size-3.5 shrink-0" />}
      <span className={cx(!words && "max-md:sr-only")}>{live ? "Live" : status === "connecting" ? "Connecting" : "Connection lost"}</span>
    </div>
  );
}

// Account is the menu of who is logged in; until it is loaded, their name.
function Account() {
  const { userName } = useSession();
  return (
    <Suspense fallback={<div className="flex min-h-8 items-center px-2 text-sm max-md:sr-only max-sm:not-sr-only">{userName}</div>}>
      <AccountMenu />
    </Suspense>
  );
}
