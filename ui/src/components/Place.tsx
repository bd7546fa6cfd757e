import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

// isPlace reports whether a path of the hub leads to a page of this console.
export const isPlace = (path: string) => path.startsWith("/") && !path.startsWith("//");

// Place is a link to a page that the hub names by its path, such as "/inbox?item=inbox_1".
export function Place(props: { path: string; className: string; title?: string; children: ReactNode }) {
  if (!isPlace(props.path)) return null;
  const [pathname = "/", query = ""] = props.path.split("?");
  // The hub knows the routes, and the types of this program do not.
  const to = { to: pathname, search: Object.fromEntries(new URLSearchParams(query)) } as { to: "/inbox"; search: object };
  return (
    <Link {...to} className={props.className} title={props.title}>
      {props.children}
    </Link>
  );
}
