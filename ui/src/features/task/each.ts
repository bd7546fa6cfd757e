import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { toast } from "sonner";
import { problemOf } from "@/api/error";

// useEach returns a function that runs an action on many objects and shows how many
// succeeded. Its undo applies only to those.
export function useEach() {
  const queries = useQueryClient();
  // The name of the running action; empty for none.
  const [busy, setBusy] = useState("");
  const each = async <T>(name: string, what: string, of: T[], call: (one: T) => Promise<unknown>, back?: (one: T) => Promise<unknown>) => {
    setBusy(name);
    const done = await Promise.allSettled(of.map(call));
    const failed = done.find((d) => d.status === "rejected");
    const changed = of.filter((_, i) => done[i]?.status === "fulfilled");
    const words = `${what}: ${changed.length} of ${of.length}`;
    const action =
      back && changed.length > 0 ? { label: "Undo", onClick: () => void each(name, `${what}, then undone`, changed, back) } : undefined;
    if (failed) toast.error(words, { description: problemOf(failed.reason).message, action });
    else toast(words, { action });
    await queries.invalidateQueries();
    setBusy("");
  };
  return { busy, each };
}
