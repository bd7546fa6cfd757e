import type { ErrorComponentProps } from "@tanstack/react-router";
import { useMatches, useRouter } from "@tanstack/react-router";
import { LoaderCircle } from "lucide-react";
import { useEffect } from "react";
import { Button } from "@/components/Button";
import { Problem } from "@/components/Problem";
import { isNotLoaded } from "./chunks";

// How long to wait before a page that could not be loaded is tried again, in
// milliseconds.
const again = 2_000;

type Preloadable = { preload?: () => Promise<unknown> | undefined };

// PageError stands in the place of a page that failed, inside the shell. One whose
// program could not be fetched, because the hub is away, is fetched again until it
// comes.
export function PageError({ error, reset }: ErrorComponentProps) {
  return isNotLoaded(error) ? (
    <NotLoaded reset={reset} />
  ) : (
    <div className="p-5">
      <Problem error={error} retry={reset} />
    </div>
  );
}

function NotLoaded({ reset }: { reset: () => void }) {
  const router = useRouter();
  const matches = useMatches();
  const load = async () => {
    for (const match of matches) {
      await (router.routesById[match.routeId as keyof typeof router.routesById]?.options.component as Preloadable | undefined)?.preload?.();
    }
    reset();
  };
  useEffect(() => {
    const timer = setInterval(() => void load(), again);
    return () => clearInterval(timer);
    // eslint-disable-next-line -- the page that failed stays the same
  }, []);
  return (
    <div className="mx-auto flex max-w-xl flex-col items-center gap-3 px-4 py-16 text-center" role="alert">
      <LoaderCircle aria-hidden className="size-6 animate-spin text-dim motion-reduce:animate-none" />
      <h1 className="text-base font-semibold">This page cannot be loaded right now</h1>
      <p className="text-dim">The hub does not answer. The page opens by itself when the hub is back; what you typed elsewhere is kept.</p>
      <Button onClick={() => void load()}>Try now</Button>
    </div>
  );
}
