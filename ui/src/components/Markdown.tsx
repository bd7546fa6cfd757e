import { Component, lazy, Suspense, type ReactNode } from "react";
import { Prose } from "./Literal";

const View = lazy(() => import("./MarkdownView").then((m) => ({ default: m.MarkdownView })));

// The longest text that is rendered, in characters. A longer one, and one that
// cannot be parsed, is shown as it is written.
const longest = 100_000;

// Markdown renders what agents and people write. The text is hostile: HTML is
// shown as text, images are links to what they would have loaded, a link names the
// host that it leads to, and characters that do not show themselves are chips.
// Nothing is fetched. Until the parser has loaded, the text is shown as written.
export function Markdown(props: { text: string; className?: string }) {
  const plain = <Prose text={props.text} className={props.className} />;
  if (props.text.length > longest) return plain;
  return (
    <Otherwise key={props.text} fallback={plain}>
      <Suspense fallback={plain}>
        <View text={props.text} className={props.className} />
      </Suspense>
    </Otherwise>
  );
}

// Otherwise shows its fallback when its children cannot be rendered, or their code
// cannot be loaded.
class Otherwise extends Component<{ fallback: ReactNode; children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render() {
    return this.state.failed ? this.props.fallback : this.props.children;
  }
}
