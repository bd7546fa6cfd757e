import type { ButtonHTMLAttributes, Ref } from "react";
import { cx } from "./cx";

type Look = "plain" | "primary" | "danger" | "quiet";

const looks: Record<Look, string> = {
  plain: "border bg-panel hover:bg-raised",
  primary: "border border-transparent bg-accent text-accent-ink hover:opacity-90",
  danger: "border border-bad text-bad bg-panel hover:bg-raised",
  quiet: "border border-transparent hover:bg-raised text-dim hover:text-ink",
};

type Props = ButtonHTMLAttributes<HTMLButtonElement> & {
  look?: Look;
  small?: boolean;
  // What the button does is under way.
  busy?: boolean;
  ref?: Ref<HTMLButtonElement>;
};

// Button is a button. One that shows an icon only needs an aria-label.
export function Button({ look = "plain", small, busy, className, disabled, type = "button", ...rest }: Props) {
  return (
    <button
      type={type}
      disabled={disabled || busy}
      aria-busy={busy || undefined}
      className={cx(
        "inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap",
        "disabled:cursor-not-allowed disabled:opacity-60",
        small ? "min-h-7 min-w-7 px-2 text-xs" : "min-h-8 min-w-8 px-3 text-sm",
        looks[look],
        className,
      )}
      {...rest}
    />
  );
}
