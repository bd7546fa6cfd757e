import { render, screen, waitFor } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";
import { Random, text } from "@/test/random";
import { Code } from "./Code";
import { tokensOf } from "./highlight";
import { languageOf, type Language } from "./languages";
import { Markdown } from "./Markdown";

async function rendered(markdown: string): Promise<HTMLElement> {
  const { container } = render(<Markdown text={markdown} />);
  await waitFor(() => expect(container.querySelector("[data-testid=markdown]")).not.toBeNull());
  return container.querySelector<HTMLElement>("[data-testid=markdown]")!;
}

// outline writes elements as a short text: what a reader has of them.
function outline(of: Node): string {
  if (of.nodeType === 3) return of.textContent ?? "";
  const el = of as HTMLElement;
  if (el.classList?.contains("chip")) return `⟨${el.dataset.mark}⟩`;
  if (el.tagName === "BUTTON" || el.tagName === "svg") return "";
  const inside = [...el.childNodes].map(outline).join("");
  const name = el.tagName.toLowerCase();
  if (name === "div" || name === "span") return inside;
  return name === "a" ? `[a ${(el as HTMLAnchorElement).href}|${inside}]` : `[${name} ${inside}]`;
}

describe("Markdown", () => {
  it.each([
    ["headings below those of the page", "# One\n\n## Two", "[h3 One]\n[h4 Two]"],
    ["headings of a text that begins below", "## One\n\n> #### Two", "[h3 One]\n[blockquote \n[h5 Two]\n]"],
    ["emphasis, code and what is struck", "a **b** _c_ `d` ~~e~~", "[p a [strong b] [em c] d [del e]]"],
    ["a list in a list", "- a\n  1. b\n- c", "[ul \n[li a\n[ol \n[li b]\n]\n]\n[li c]\n]"],
    ["tasks that are done", "- [x] a\n- [ ] b", "[ul \n[li ☑  a]\n[li ☐  b]\n]"],
    ["a table", "| a | b |\n|---|---|\n| 1 | 2 |", "[table [thead [tr [th a][th b]]][tbody [tr [td 1][td 2]]]]"],
    ["code as it is", "```go\nx := \"<b>\\u202e\"\n```", "[pre x := \"<b>\\u202e\"]"],
    ["a link with its host", "[docs](https://example.com/a)", "[p [a https://example.com/a|docs] (example.com)]"],
    ["a link that claims another host", "[https://bank.example](https://evil.example/x)", "[p [a https://evil.example/x|https://bank.example] (evil.example)]"],
    ["a host of letters that look like others", "[x](https://аpi.example.com)", "[p [a https://xn--pi-6kc.example.com/|x] (xn--pi-6kc.example.com)]"],
    ["a user name that looks like a host", "[x](https://bank.example@evil.example/)", "[p [a https://bank.example@evil.example/|x] (evil.example)]"],
    ["an address by itself", "see https://example.com/a.", "[p see [a https://example.com/a|https://example.com/a].]"],
    ["mail", "<mailto:a@example.com>", "[p [a mailto:a@example.com|mailto:a@example.com]]"],
    ["no script as a link", "[x](javascript:alert(1))", "[p x (javascript:alert(1))]"],
    ["no script behind a character reference", "[x](java&#115;cript:alert(1)) [y](&#x6A;avascript:alert(1))", "[p x (javascript:alert(1)) y (javascript:alert(1))]"],
    ["no data or file as a link", "[x](data:text/html,<script>1</script>) [y](file:///etc/passwd)", "[p x (data:text/html,%3Cscript%3E1%3C/script%3E) y (file:///etc/passwd)]"],
    ["no page of the console as a link", "[x](/tasks/task_1) [y](//evil.example) [z](../fleet)", "[p x (/tasks/task_1) y (//evil.example) z (../fleet)]"],
    ["an image as a link", "![logo](https://evil.example/pixel.png?secret)", "[p [a https://evil.example/pixel.png?secret|[image: logo]] (evil.example)]"],
    ["an image of a reference", "![a][b]\n\n[b]: https://evil.example/p.png", "[p [a https://evil.example/p.png|[image: a]] (evil.example)]"],
    ["HTML as text", "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> a <b onclick=x>b</b>", "<script>alert(1)</script>\n[p <img src=x onerror=alert(1)> a <b onclick=x>b</b>]"],
    ["a comment as text", "a <!-- hidden --> b", "[p a <!-- hidden --> b]"],
    ["a frame and a form as text", "<iframe src=//evil.example></iframe>\n\n<form action=//evil.example><input name=p></form>", "<iframe src=//evil.example></iframe>\n<form action=//evil.example><input name=p></form>"],
    ["turned direction as a chip", "a \u202etxt.exe b", "[p a ⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩txt.exe b]"],
    ["a character reference of one as a chip", "a &#x202e;b &#x200b;c", "[p a ⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩b ⟨U+200B ZERO WIDTH SPACE⟩c]"],
    ["an escape as a chip", "a \u001b[31mred", "[p a ⟨ESC⟩[31mred]"],
    ["pictures as such", "done 👩‍💻 ✔️", "[p done 👩‍💻 ✔️]"],
    ["footnotes that lead nowhere", "a[^1]\n\n[^1]: b", "[p a[sup 1]]\n[h3 Footnotes]\n[ol \n[li \n[p b ↩]\n]\n]\n"],
  ])("shows %s", async (_, markdown, want) => {
    expect(outline(await rendered(markdown))).toBe(want);
  });

  it("loads nothing, and has no HTML of its own", async () => {
    const fetched = vi.spyOn(globalThis, "fetch");
    const el = await rendered(
      "<style>@import '//evil.example'</style>\n![a](//evil.example/1.png)\n<svg onload=x>\n<a href=javascript:1>x</a> <object data=x>\n[r]: //evil.example\n\n![r]",
    );
    expect(el.querySelectorAll("script, style, img, svg, iframe, object, embed, form, input, link, meta, video, audio, [style*=url], [src], [srcset], [onload], [onerror], [id]")).toHaveLength(0);
    for (const a of el.querySelectorAll("a")) {
      expect(a.protocol).toMatch(/^(https?|mailto):$/);
      expect(a.rel).toBe("noopener noreferrer");
    }
    expect(fetched).not.toHaveBeenCalled();
  });

  it("shows a text that is nested to break the page as it is written", async () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const hostile = ">".repeat(300) + " deep";
    const { container } = render(<Markdown text={hostile} />);
    await waitFor(() => expect(container.textContent).toBe(hostile));
  });
});

describe("Code", () => {
  const samples: [Language, string, string][] = [
    ["go", 'func main() { // run\n\tx := "a" + `b\nc`\n}', "// run"],
    ["shell", "for f in *.go; do echo \"$f\" '#no' # yes\ndone", "# yes"],
    ["python", 'def f():\n    """doc\n    # no"""\n    return 1 # yes', "# yes"],
    ["typescript", "const a: string = `x`; /* c */", "/* c */"],
    ["json", '{"a": [1, true, null]}', "true"],
    ["yaml", "a: 1 # c\nb: [x]", "# c"],
    ["sql", "SELECT 'it''s' FROM t -- c", "-- c"],
  ];

  it.each(samples)("finds the parts of %s", async (language, code, part) => {
    const tokens = await tokensOf(code, language);
    expect(tokens.map((t) => code.slice(t.from, t.to))).toContain(part);
  });

  it("never changes a text", async () => {
    const random = new Random(7);
    const languages: Language[] = ["go", "shell", "typescript", "markdown", "html", "css", "yaml", "diff"];
    for (let i = 0; i < 20; i++) {
      const code = `x ${text(random, 40)}\n/* ${text(random)}`;
      const language = random.pick(languages);
      const { container, unmount } = render(<Code text={code} language={language} label="Code" />);
      const coloured = (await tokensOf(code, language)).length > 0;
      await waitFor(() => expect(container.querySelector("pre [class^=text-]") !== null).toBe(coloured));
      expect(container.querySelector("pre")!.textContent).toBe(code);
      unmount();
    }
  });

  it("numbers lines and colours words", async () => {
    render(<Code text={"package a\n\nfunc b() {}\n"} path="cmd/main.go" label="main.go" />);
    const block = screen.getByRole("group", { name: "main.go" });
    await waitFor(() => expect(block.querySelector(".text-info")?.textContent).toBe("package"));
    expect([...block.querySelectorAll(".literal-line")].map((l) => l.getAttribute("data-number"))).toEqual(["1", "2", "3"]);
    expect(block.textContent).toBe("package a\n\nfunc b() {}\n");
  });

  it("knows languages by names and paths", () => {
    expect([languageOf("Bash"), languageOf("tsx"), languageOf(undefined, "a/Dockerfile"), languageOf(undefined, "x/Makefile"), languageOf(undefined, "a.b.yml"), languageOf("no", "x")]).toEqual([
      "shell", "typescript", "docker", "shell", "yaml", undefined,
    ]);
  });
});
