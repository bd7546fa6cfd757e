// base is where this hub's console is, with a slash at its end: the hub writes
// it into the page's <base>, from its base path or from what a proxy says.
export const base = new URL(".", document.baseURI);

// basePath is the path of base without the slash: "" at the root.
export const basePath = base.pathname.replace(/\/$/, "");
