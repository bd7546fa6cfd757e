import { useEffect } from "react";

// byToken has an infinite query follow the pages of a list.
export const byToken = {
  pageParamKey: "pageToken",
  getNextPageParam: (page: { nextPageToken: string }) => page.nextPageToken || undefined,
} as const;

// useRest reads the pages that a list still has, one after another, where all of
// it is needed.
export function useRest(pages: { data: unknown; hasNextPage: boolean; isFetching: boolean; isError: boolean; fetchNextPage: () => unknown }) {
  const { data, hasNextPage, isFetching, isError, fetchNextPage } = pages;
  useEffect(() => {
    if (hasNextPage && !isFetching && !isError) void fetchNextPage();
    // A page may come so fast that nothing else has changed when it is there.
  }, [data, hasNextPage, isFetching, isError, fetchNextPage]);
}
