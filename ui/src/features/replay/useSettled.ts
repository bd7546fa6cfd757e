import { useEffect, useState } from "react";

// useSettled returns a value once it has not changed for so many milliseconds; the first
// one at once.
export function useSettled<T>(value: T, after: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), after);
    return () => clearTimeout(timer);
  }, [value, after]);
  return settled;
}
