export const groupings = ["node", "status", "model"] as const;
export type Grouping = (typeof groupings)[number];
// The first is the default.
export const sorts = ["need", "name", "cost", "last"] as const;
export type Sort = (typeof sorts)[number];
export type FleetSearch = { q?: string; status?: string; group?: Grouping; sort?: Sort; view?: "table" };

const text = (v: unknown) => (typeof v === "string" && v !== "" ? v.slice(0, 100) : undefined);

export function parseFleetSearch(search: Record<string, unknown>): FleetSearch {
  return {
    q: text(search.q),
    status: text(search.status),
    group: groupings.find((g) => g === search.group),
    sort: sorts.find((s) => s === search.sort),
    view: search.view === "table" ? "table" : undefined,
  };
}

// A SavedView is a filter of the fleet with a name, kept in this browser.
export type SavedView = { name: string; search: FleetSearch };

const key = "deckhand.fleet.views";
const mostViews = 50;

export function readViews(): SavedView[] {
  try {
    const all: unknown = JSON.parse(localStorage.getItem(key) ?? "[]");
    if (!Array.isArray(all)) return [];
    return all
      .filter((v): v is { name: string; search: Record<string, unknown> } => typeof v?.name === "string" && v.name !== "" && typeof v.search === "object" && v.search !== null)
      .slice(0, mostViews)
      .map((v) => ({ name: v.name.slice(0, 60), search: parseFleetSearch(v.search) }));
  } catch {
    return []; // what another version, or a person, put there
  }
}

// saveView keeps a view, in place of one of the same name.
export function saveView(view: SavedView): SavedView[] {
  const all = [...readViews().filter((v) => v.name !== view.name), view].slice(-mostViews);
  localStorage.setItem(key, JSON.stringify(all));
  return all;
}

export function deleteView(name: string): SavedView[] {
  const all = readViews().filter((v) => v.name !== name);
  localStorage.setItem(key, JSON.stringify(all));
  return all;
}
