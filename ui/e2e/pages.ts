// PageToLook is a page that axe and the screenshots go through, once with nothing
// on the hub and once after the stories.
export type PageToLook = {
  name: string;
  path: string;
  // What is there when the page is: a heading of the first level.
  heading: string | RegExp;
  // It is looked at in a window of 400 pixels, too.
  narrow?: boolean;
};

// One line a page. A page of an object that the stories make is in a story.
export const pages: PageToLook[] = [
  { name: "audit", path: "audit", heading: "Audit" },
  { name: "budgets", path: "budgets", heading: "Budgets" },
  { name: "chat", path: "chat", heading: "Chat" },
  { name: "fleet", path: "fleet", heading: "Fleet", narrow: true },
  { name: "images", path: "images", heading: "Images", narrow: true },
  { name: "inbox", path: "inbox", heading: "Inbox", narrow: true },
  { name: "new-agent", path: "agents/new", heading: "New agent", narrow: true },
  { name: "new-agent-draft", path: "agents/new?from=coder", heading: "New agent", narrow: true },
  { name: "nodes", path: "nodes", heading: "Nodes" },
  { name: "notifications", path: "notifications", heading: "Notifications" },
  { name: "policy", path: "policy", heading: "Policy" },
  { name: "providers", path: "providers", heading: "Providers" },
  { name: "search", path: "search", heading: "Search", narrow: true },
  { name: "settings", path: "settings", heading: "Settings", narrow: true },
  { name: "settings-organisation", path: "settings/organisation", heading: "Settings", narrow: true },
  { name: "settings-appearance", path: "settings/appearance", heading: "Settings", narrow: true },
  { name: "statistics", path: "statistics", heading: "Statistics" },
  { name: "tasks", path: "tasks", heading: "Tasks" },
  { name: "teams", path: "users?tab=teams", heading: "Users", narrow: true },
  { name: "tokens", path: "users?tab=tokens", heading: "Users", narrow: true },
  { name: "triggers", path: "triggers", heading: "Triggers" },
  { name: "new-trigger", path: "triggers/new", heading: "New trigger" },
  { name: "users", path: "users", heading: "Users", narrow: true },
];
