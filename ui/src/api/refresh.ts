import type { DescService } from "@bufbuild/protobuf";
import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";

// useRefresh returns a function that reloads everything on screen that came from a
// service. It is for changes without an event.
export function useRefresh(service: DescService): () => Promise<void> {
  const queries = useQueryClient();
  return useCallback(
    () => queries.invalidateQueries({ queryKey: ["connect-query", { serviceName: service.typeName }] }),
    [queries, service],
  );
}
