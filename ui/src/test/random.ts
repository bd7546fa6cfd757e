// Random makes the same values of the same seed: a test that fails fails again.
export class Random {
  private state: number;

  constructor(seed: number) {
    this.state = seed >>> 0;
  }

  // next returns a number from 0 up to, and without, 1 (mulberry32).
  next(): number {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  pick<T>(of: readonly T[]): T {
    return of[this.below(of.length)]!;
  }
}

const shapes = [
  "⟦", "⟧", "⟦U+202E⟧", "␛", "\u001b[2K", "\u001b]0;x\u0007", "\r", "\r\n", "\n", "\n\n", "\t", "\u0000", "\u007f", "\u009b2K", "\u00a0", "\u00ad",
  "\u061c", "\u180e", "\u200b", "\u200d", "\u202e", "\u2066", "\u2069", "\u2028", "\u2029", "\ufe0f", "\ufeff", "\ufff9", "\u{e0041}", "\u{e0100}",
  "\ue000", "\ud800", "\udc00", "раypal", "pαsswd", "https://аpi.example.com/x", "://е", "ｒｍ", "𝐫𝐦", "ls\u037e", "rm -rf /", "אבג", "مرحبا", "👩\u200d💻",
  "1\ufe0f\u20e3", "你好", " ", "<b>&amp;</b>", "$& $1 `x`", "\\u202e", "'\\''",
];

// text is made of shapes that are hard to show, and of any characters.
export function text(random: Random, most = 24): string {
  let out = "";
  for (let n = random.below(most); n > 0; n--) {
    const kind = random.below(10);
    if (kind < 6) out += random.pick(shapes);
    else if (kind < 8) out += String.fromCharCode(random.below(0x300));
    else if (kind < 9) out += String.fromCharCode(random.below(0x10000));
    else out += String.fromCodePoint(random.below(0x110000));
  }
  return out;
}
