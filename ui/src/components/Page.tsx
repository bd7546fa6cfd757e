import { useEffect, type ReactNode } from "react";

// Page is what every page is in: its title, which the window gets too, what can
// be done, and its content.
export function Page(props: { title: string; heading?: ReactNode; actions?: ReactNode; children: ReactNode; full?: boolean }) {
  useEffect(() => {
    document.title = `${props.title} · Deckhand`;
  }, [props.title]);
  return (
    <div className={props.full ? "flex h-full min-h-0 flex-col" : "mx-auto flex max-w-[1600px] flex-col"}>
      <header className="flex min-h-14 flex-wrap items-center gap-x-4 gap-y-2 px-5 py-2.5 max-sm:px-4">
        <h1 className="min-w-0 flex-1 truncate max-sm:min-w-48 text-lg font-semibold">{props.heading ?? props.title}</h1>
        {props.actions && <div className="flex max-w-full shrink-0 flex-wrap items-center gap-2 max-sm:[&>*]:flex-wrap">{props.actions}</div>}
      </header>
      <div className={props.full ? "min-h-0 flex-1" : "px-5 pb-8 max-sm:px-4"}>{props.children}</div>
    </div>
  );
}
