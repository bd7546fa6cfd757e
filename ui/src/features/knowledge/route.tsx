import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { shellRoute } from "@/app/root";

const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);

const page = createRoute({
  path: "/knowledge",
  getParentRoute: () => shellRoute,
  // The question, the collection that is looked into or shown, and the passage that is open.
  validateSearch: (search): { q?: string; collection?: string; passage?: string } => ({
    q: text(search.q),
    collection: text(search.collection),
    passage: typeof search.passage === "number" ? String(search.passage) : text(search.passage),
  }),
  component: lazyRouteComponent(() => import("./KnowledgePage"), "KnowledgePage"),
});

export const knowledgeRoutes = [page] as const;
