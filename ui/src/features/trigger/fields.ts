// PayloadField is a value of a payload: the CEL expression that has it, and the value as
// JSON, which is CEL too.
export type PayloadField = { path: string; value: string };

// How many fields are offered, how deep, and how long a value is that is compared with.
const mostFields = 200;
const longest = 60;
const deepest = 6;
const name = /^[A-Za-z_][A-Za-z0-9_]*$/;

// fieldsOf returns the values of a payload that an expression can name, in its order; none
// if it is not JSON. The elements of a list are those of its first one.
export function fieldsOf(body: string): PayloadField[] {
  const out: PayloadField[] = [];
  const add = (value: unknown, path: string, depth: number) => {
    if (out.length >= mostFields) return;
    if (Array.isArray(value)) {
      if (value.length > 0 && depth < deepest) add(value[0], `${path}[0]`, depth + 1);
    } else if (value !== null && typeof value === "object") {
      if (depth >= deepest) return;
      for (const [key, of] of Object.entries(value)) add(of, name.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(key)}]`, depth + 1);
    } else out.push({ path, value: JSON.stringify(value) });
  };
  try {
    add(JSON.parse(body), "payload", 0);
  } catch {
    return [];
  }
  return out.filter((f) => f.path !== "payload");
}

// condition is what a filter that looks for a field's value says; of a long value, that
// there is one.
export const condition = (f: PayloadField) => (f.value.length > longest ? `has(${f.path})` : `${f.path} == ${f.value}`);

// withCondition adds a condition to a filter.
export const withCondition = (filter: string, f: PayloadField) => (filter.trim() ? `${filter.trim()} && ${condition(f)}` : condition(f));
