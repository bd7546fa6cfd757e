import { useId, type ComponentProps, type ReactElement, type ReactNode, cloneElement } from "react";
import { cx } from "./cx";

const box =
  "rounded-md border bg-panel px-2.5 text-sm placeholder:text-dim disabled:opacity-60 aria-invalid:border-bad";

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return <input className={cx(box, "min-h-8 w-full", className)} {...rest} />;
}

export function TextArea({ className, ...rest }: ComponentProps<"textarea">) {
  return <textarea className={cx(box, "w-full py-1.5", className)} {...rest} />;
}

export function Select({ className, ...rest }: ComponentProps<"select">) {
  return <select className={cx(box, "min-h-8 pr-7", className)} {...rest} />;
}

// Field gives one control its label, and what is wrong with what it holds.
export function Field(props: {
  label: ReactNode;
  hint?: ReactNode;
  problem?: string;
  children: ReactElement<{ id?: string; "aria-invalid"?: boolean; "aria-describedby"?: string }>;
}) {
  const id = useId();
  const about = props.problem || props.hint ? `${id}-about` : undefined;
  return (
    <div className="space-y-1">
      <label htmlFor={id} className="block text-sm font-medium">
        {props.label}
      </label>
      {cloneElement(props.children, { id, "aria-invalid": props.problem ? true : undefined, "aria-describedby": about })}
      {about && (
        <p id={about} className={cx("text-xs", props.problem ? "text-bad" : "text-dim")}>
          {props.problem ?? props.hint}
        </p>
      )}
    </div>
  );
}
