// Do an engine's ids mean what ours do? A hundred texts that every implementation of one vocabulary agrees on, compared
// once at start. None holds a control token, which some engines recognise in plain text whatever they are told; none needs
// normalisation or rare marks, in which llama.cpp is known to differ from the reference (its issues on NFC and \p{M}).

const seeds = [
  'Hello, world!',
  'The quick brown fox jumps over the lazy dog.',
  'def main(args):\n    return [x ** 2 for x in range(10) if x % 3 == 0]\n',
  'const answer = await fetch(`${base}/v1/models`, { method: "GET" })\n',
  '{"name": "read_file", "arguments": {"path": "/etc/hosts", "limit": 200}}',
  'SELECT id, count(*) FROM turns WHERE started > 1700000000 GROUP BY id;',
  'drwxr-xr-x  2 root root 4096 Jan  1 00:00 bin\n-rw-r--r--  1 root root  220 Jan  1 00:00 .profile\n',
  "It's what they've said: we'd rather not, don't you think?",
  '    indented\n\t\ttabbed\n\n\nthree line breaks',
  'Zürich, naïve café, señor, Åse, œuvre',
  '中文字符和标点，以及一些数字123。',
  'Привет, мир! Как дела?',
  '日本語のテキストとカタカナ',
  'a1b2c3 0xdeadbeef 3.14159 1e-9 1,000,000',
  'https://example.org/path?query=1&other=two#part',
  '<html><body class="a b">&amp; &lt;p&gt;</body></html>',
  'for (int i = 0; i < n; ++i) { sum += a[i] * b[i]; } // dot product',
  'ERROR 2026-01-02T03:04:05.678Z [worker-7] failed: ECONNRESET (attempt 3/5)',
  'x = y == z != w <= v >= u && t || !s',
  'ALL CAPS, CamelCase, snake_case, kebab-case, SCREAMING_SNAKE',
]
const turns: readonly ((text: string) => string)[] = [
  (text) => text,
  (text) => ` ${text}`,
  (text) => `${text}\n`,
  (text) => text.slice(0, Math.ceil(text.length / 2)),
  (text) => `${text} ${text}`,
]
/** The hundred texts. */
export const selfTest: readonly string[] = seeds.flatMap((seed) => turns.map((turn) => turn(seed)))

/** The first text that comes out otherwise: a sentence for the log. Undefined where both agree. */
export function disagreement(
  texts: readonly string[],
  ours: readonly ArrayLike<number>[],
  theirs: readonly (readonly number[])[],
): string | undefined {
  for (const [n, text] of texts.entries()) {
    const [a, b] = [Array.from(ours[n] ?? []), theirs[n] ?? []]
    const at = a.findIndex((id, i) => id !== b[i])
    if (at < 0 && a.length === b.length) continue
    const place = at < 0 ? Math.min(a.length, b.length) : at
    return `${JSON.stringify(text.slice(0, 60))} is ${around(a, place)} here and ${around(b, place)} there, at token ${place}`
  }
  return undefined
}
const around = (ids: readonly number[], at: number): string =>
  `[…${ids.slice(Math.max(0, at - 1), at + 3).join(', ')}…]`
