import { Link } from "@tanstack/react-router";
import { Ellipsis } from "lucide-react";
import { useState, type ReactNode } from "react";
import { Dialog } from "@/components/Dialog";
import { nav, type NavItem } from "./nav";

// The places that are under the thumb; the others are behind More.
const under = ["/inbox", "/tasks", "/fleet"];

const place =
  "relative flex min-h-14 flex-1 flex-col items-center justify-center gap-0.5 text-xs text-dim aria-[current=page]:font-semibold aria-[current=page]:text-ink";

// BottomBar is the navigation of a phone.
export function BottomBar(props: { items: NavItem[]; count: ReactNode; foot: ReactNode; onSearch: () => void }) {
  const [more, setMore] = useState(false);
  const rest = props.items.filter((i) => !under.includes(i.to));
  return (
    <nav aria-label="Phone" className="flex border-t bg-panel pb-[env(safe-area-inset-bottom)] sm:hidden">
      {under.map((to) => {
        const item = nav.find((i) => i.to === to)!;
        const Icon = item.icon;
        return (
          <Link key={to} to={to} className={place}>
            <Icon aria-hidden className="size-5" />
            {item.label}
            {to === "/inbox" && <span className="absolute top-1 left-1/2 ml-2">{props.count}</span>}
          </Link>
        );
      })}
      <button type="button" aria-haspopup="dialog" className={place} onClick={() => setMore(true)}>
        <Ellipsis aria-hidden className="size-5" />
        More
      </button>
      <Dialog open={more} onClose={() => setMore(false)} title="More">
        <button
          type="button"
          className="flex min-h-11 w-full items-center gap-3 rounded-md px-2 hover:bg-raised"
          onClick={() => {
            setMore(false);
            props.onSearch();
          }}
        >
          Search or run a command
        </button>
        <ul>
          {rest.map((item) => (
            <li key={item.to}>
              <Link to={item.to} onClick={() => setMore(false)} className="flex min-h-11 items-center gap-3 rounded-md px-2 hover:bg-raised">
                <item.icon aria-hidden className="size-5 shrink-0 text-dim" />
                {item.label}
              </Link>
            </li>
          ))}
        </ul>
        {props.foot}
      </Dialog>
    </nav>
  );
}
