import type { Element, ElementContent, Root } from "hast";
import { memo, type ReactNode } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import { Code } from "./Code";
import { cx } from "./cx";
import { copyExactly, Literal, proseOf } from "./Literal";
import type { Piece } from "./marks";

// MarkdownView is Markdown with its parser.
export const MarkdownView = memo(function MarkdownView(props: { text: string; className?: string }) {
  return (
    <div className={cx("min-w-0 space-y-2 break-words", props.className)} data-testid="markdown" onCopy={copyExactly}>
      <ReactMarkdown remarkPlugins={remark} rehypePlugins={rehype} components={components} urlTransform={same}>
        {props.text}
      </ReactMarkdown>
    </div>
  );
});

const remark = [remarkGfm];
const rehype = [() => literal];
const same = (url: string) => url; // Anchor decides what may be followed

// Elements that Markdown makes are nested less deeply than this, unless the text
// is made to break the page.
const deepest = 100;

// literal makes HTML text, and chips of characters that do not show themselves. It
// takes away ids: those of several texts on a page would be the same.
function literal(tree: Root) {
  const children = (of: readonly ElementContent[], inCode: boolean, depth: number): ElementContent[] => {
    if (depth > deepest) throw new RangeError("Markdown is nested too deeply");
    return of.flatMap((node): ElementContent[] => {
      switch (node.type) {
        case "text":
          return inCode ? [node] : proseOf(node.value).map(nodeOf);
        case "element": {
          const { id: _, ...properties } = node.properties;
          return [{ ...node, properties, children: children(node.children, inCode || node.tagName === "code", depth + 1) }];
        }
        case "comment":
          return [];
        default: // HTML, as it is written
          return "value" in node ? proseOf(String((node as { value: unknown }).value)).map(nodeOf) : [];
      }
    });
  };
  tree.children = children(tree.children as ElementContent[], false, 0);
  lower(tree.children as ElementContent[]);
}

const level = (node: ElementContent) => (node.type === "element" && /^h[1-6]$/.test(node.tagName) ? Number(node.tagName[1]) : 0);

// lower puts headings below those of the page: the highest one of the text, whatever
// it is, is of the third level.
function lower(all: readonly ElementContent[]) {
  const headings: Element[] = [];
  const collect = (of: readonly ElementContent[]) => {
    for (const node of of) {
      if (node.type !== "element") continue;
      if (level(node)) headings.push(node);
      collect(node.children);
    }
  };
  collect(all);
  const highest = Math.min(...headings.map(level));
  for (const h of headings) h.tagName = `h${Math.min(6, level(h) - highest + 3)}`;
}

function nodeOf(piece: Piece): ElementContent {
  if (typeof piece === "string") return { type: "text", value: piece };
  const name = piece.count > 1 ? `${piece.name} × ${piece.count}` : piece.name;
  return {
    type: "element",
    tagName: "span",
    properties: { className: ["chip"], role: "img", title: name, ariaLabel: name, dataMark: name },
    children: [{ type: "text", value: piece.original }],
  };
}

// textOf returns the text of an element.
function textOf(of: Element | undefined): string {
  return (of?.children ?? []).map((c) => (c.type === "text" ? c.value : c.type === "element" ? textOf(c) : "")).join("");
}

// where returns how an address is named beside a link; undefined for one that may
// not be followed.
function where(url: string): { href: string; host: string } | undefined {
  try {
    const parsed = new URL(url);
    if (parsed.protocol === "mailto:") return { href: parsed.href, host: "mail" };
    if (parsed.protocol === "https:" || parsed.protocol === "http:") return { href: parsed.href, host: parsed.host };
  } catch {
    // A path, or no address at all.
  }
  return undefined;
}

function Anchor(props: { url: string; text: string; children: ReactNode }) {
  const { url, text, children } = props;
  if (url.startsWith("#")) return children;
  const to = where(url);
  if (!to) {
    return (
      <>
        {children}
        {url !== text && <Literal className="text-dim" text={` (${url})`} />}
      </>
    );
  }
  const own = text === url || text === to.href || `mailto:${text}` === url;
  return (
    <>
      <a href={to.href} target="_blank" rel="noopener noreferrer" className="text-accent underline">
        {children}
      </a>
      {!own && <Literal className="text-dim" text={` (${to.host})`} />}
    </>
  );
}

const components: Components = {
  a: ({ node, href, children }) => (
    <Anchor url={String(href ?? "")} text={textOf(node)}>
      {children}
    </Anchor>
  ),
  img: ({ src, alt }) => (
    <Anchor url={String(src ?? "")} text="">
      [image{alt ? ": " : ""}
      {alt && <Literal text={alt} />}]
    </Anchor>
  ),
  h3: ({ children }) => <h3 className="text-base font-semibold">{children}</h3>,
  h4: ({ children }) => <h4 className="font-semibold">{children}</h4>,
  h5: ({ children }) => <h5 className="font-semibold">{children}</h5>,
  h6: ({ children }) => <h6 className="font-medium">{children}</h6>,
  ul: ({ children }) => <ul className="list-disc space-y-0.5 pl-6">{children}</ul>,
  ol: ({ children, start }) => (
    <ol start={start} className="list-decimal space-y-0.5 pl-6">
      {children}
    </ol>
  ),
  blockquote: ({ children }) => <blockquote className="border-l-2 pl-3 text-dim">{children}</blockquote>,
  hr: () => <hr className="border-t" />,
  input: ({ checked }) => (
    <span role="img" aria-label={checked ? "done" : "not done"}>
      {checked ? "☑" : "☐"}{" "}
    </span>
  ),
  table: ({ children }) => (
    <div tabIndex={0} role="group" aria-label="Table" className="overflow-x-auto">
      <table className="border-collapse text-left">{children}</table>
    </div>
  ),
  th: ({ children, style }) => (
    <th style={style} className="border px-2 py-1 font-semibold">
      {children}
    </th>
  ),
  td: ({ children, style }) => (
    <td style={style} className="border px-2 py-1 align-top">
      {children}
    </td>
  ),
  section: ({ children }) => <div className="border-t pt-2 text-xs text-dim">{children}</div>,
  pre: ({ node }) => {
    const code = node?.children.find((c): c is Element => c.type === "element");
    const language = /^language-(.+)$/.exec([code?.properties.className].flat().map(String).find((c) => c.startsWith("language-")) ?? "")?.[1];
    return <Code text={textOf(code).replace(/\n$/, "")} language={language} label="Code" numbered={false} />;
  },
  code: ({ node }) => <Literal className="rounded bg-raised px-1 font-mono text-[0.9em] break-words" text={textOf(node)} />,
};
