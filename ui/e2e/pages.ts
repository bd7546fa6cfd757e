// PageToLook is a page that axe and the screenshots go through, once with nothing
// on the hub and once after the stories.
export type PageToLook = {
  name: string;
  path: string;
  // What is there when the page is: a heading of the first level.
  heading: string | RegExp;
};

// One line a page. A page of an object that the stories make is in a story.
export const pages: PageToLook[] = [
  { name: "fleet", path: "fleet", heading: "Fleet" },
  { name: "inbox", path: "inbox", heading: "Inbox" },
  { name: "new-agent", path: "agents/new", heading: "New agent" },
  { name: "nodes", path: "nodes", heading: "Nodes" },
  { name: "tasks", path: "tasks", heading: "Tasks" },
];
