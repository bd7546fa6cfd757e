import type { DescService } from "@bufbuild/protobuf";
import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";

// useRefresh answers what asks a service again for all that is on screen: after
// a change of what no event tells of.
export function useRefresh(service: DescService): () => Promise<void> {
  const queries = useQueryClient();
  return useCallback(
    () => queries.invalidateQueries({ queryKey: ["connect-query", { serviceName: service.typeName }] }),
    [queries, service],
  );
}
