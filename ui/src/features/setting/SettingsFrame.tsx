import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Page } from "@/components/Page";

const pages = [
  ["/settings", "Profile"],
  ["/settings/organisation", "Organisation"],
  ["/settings/appearance", "Appearance"],
] as const;

// SettingsFrame is around the three pages of settings.
export function SettingsFrame(props: { children: ReactNode }) {
  return (
    <Page title="Settings">
      <nav aria-label="Settings" className="flex flex-wrap gap-1 border-b">
        {pages.map(([to, label]) => (
          <Link
            key={to}
            to={to}
            activeOptions={{ exact: true }}
            className="-mb-px min-h-9 border-b-2 border-transparent px-3 py-1.5 text-dim hover:text-ink aria-[current=page]:border-accent aria-[current=page]:font-medium aria-[current=page]:text-ink"
          >
            {label}
          </Link>
        ))}
      </nav>
      {props.children}
    </Page>
  );
}
