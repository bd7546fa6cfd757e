import { useQuery } from "@tanstack/react-query";
import { RotateCw } from "lucide-react";
import { base } from "@/api/base";
import { Literal } from "@/components/Literal";

// How often the hub is asked, in milliseconds: sooner while it does not answer otherwise.
const every = 15_000;
const everyWhileLost = 2_000;

// restartingParts returns the names of the parts that a status page says are restarting.
export function restartingParts(page: unknown): string[] {
  if (typeof page !== "object" || page === null || !("parts" in page) || !Array.isArray(page.parts)) return [];
  return page.parts.flatMap((p: unknown) =>
    typeof p === "object" && p !== null && "name" in p && "status" in p && p.status === "restarting" && typeof p.name === "string" ? [p.name] : [],
  );
}

// Restarting says on every page that a part which the hub's process keeps running has ended
// and is started again.
export function Restarting({ lost }: { lost: boolean }) {
  const { data, isError } = useQuery({
    queryKey: ["status"],
    retry: false,
    refetchInterval: lost ? everyWhileLost : every,
    queryFn: async ({ signal }) => {
      const res = await fetch(new URL("status", base), { signal, headers: { Accept: "application/json" } });
      return restartingParts(res.ok ? await res.json() : undefined);
    },
  });
  // What was true before the hub went is of no use any more.
  if (isError || !data || data.length === 0) return null;
  return (
    <div role="status" className="flex items-center gap-x-3 border-b border-warn bg-panel px-5 py-2 text-warn">
      <RotateCw aria-hidden className="size-4 shrink-0" />
      <p className="min-w-0 flex-1">
        <Literal text={data.join(" and ")} /> {data.length === 1 ? "has" : "have"} ended and {data.length === 1 ? "is" : "are"} being started again. What depends on {data.length === 1 ? "it" : "them"} waits.
      </p>
    </div>
  );
}
