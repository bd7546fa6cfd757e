import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { showError } from "@/components/showError";

// useRun returns run, which does something under a name and loads everything again, and
// the name of what is being done; "" for nothing. An error is shown.
export function useRun() {
  const queries = useQueryClient();
  const [busy, setBusy] = useState("");
  const run = async (name: string, fn: () => Promise<unknown>) => {
    setBusy(name);
    try {
      await fn();
      await queries.invalidateQueries();
    } catch (e) {
      showError(e);
    } finally {
      setBusy("");
    }
  };
  return { busy, run };
}
