// dollars writes millionths of a US dollar: "$0.0042", "$12.30".
export function dollars(micros: bigint | number): string {
  const value = Number(micros) / 1e6;
  if (value === 0) return "$0";
  if (Math.abs(value) < 0.01) return `$${value.toFixed(4)}`;
  return `$${value.toFixed(2)}`;
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

// count writes a number short: "12.3K".
export const count = (n: bigint | number) => compact.format(n);

// bytes writes a size: "4 KiB".
export function bytes(n: bigint | number): string {
  let value = Number(n);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(value) < 1024) return `${unit === "B" || value >= 10 ? Math.round(value) : value.toFixed(1)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}
