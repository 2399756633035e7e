// A byte-level tokenizer of our own: all bytes, some merges learned from a few lines, and whatever control tokens a test wants.
import type { TokenizerJson } from './fixtures.ts'

const lines = `the quick brown fox jumps over the lazy dog and then the dog jumps over the fox
function add(left, right) { return left + right } const name = "value"; if (name) return null
{"name": "shell", "arguments": {"command": "ls -la", "path": "/home/user"}} the user said that there is a file
über straße été déjà vu ñandú 日本語 中文字符 中文 日本 한국어 😀😀 👍 привет мир    deep indent\t\tand tabs`

export const pattern =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const chars: readonly string[] = (() => {
  let next = 256
  const plain = (b: number): boolean => (b > 32 && b < 127) || (b > 160 && b !== 173)
  return Array.from({ length: 256 }, (_, b) => String.fromCharCode(plain(b) ? b : next++))
})()
const toChars = (text: string): string[] => Array.from(Buffer.from(text), (byte) => chars[byte] ?? '')

/** Learns up to `most` merges: each time the pair that is met most often. */
function learn(most: number): [string, string][] {
  const words = (lines.match(/ ?[^\s]+|\s+/g) ?? []).map(toChars)
  const merges: [string, string][] = []
  while (merges.length < most) {
    const counts = new Map<string, number>()
    for (const word of words)
      for (let n = 0; n + 1 < word.length; n++) {
        const pair = `${word[n]} ${word[n + 1]}`
        counts.set(pair, (counts.get(pair) ?? 0) + 1)
      }
    const [best] = [...counts].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1))
    if (!best) break
    const [left = '', right = ''] = best[0].split(' ')
    merges.push([left, right])
    for (const word of words)
      for (let n = 0; n + 1 < word.length; n++)
        if (word[n] === left && word[n + 1] === right) word.splice(n, 2, left + right)
  }
  return merges
}
const learned = learn(300)

type Small = {
  readonly nfc?: boolean
  readonly ignoreMerges?: boolean
  readonly pattern?: string
  readonly merges?: number
}
/** A `tokenizer.json`: ids of bytes, of merges, then of the control tokens in their order. */
export function smallJson(controls: readonly string[] = [], options: Small = {}): TokenizerJson {
  const merges = learned.slice(0, options.merges ?? 300)
  const tokens = [...new Set([...chars, ...merges.map(([left, right]) => left + right)])]
  return {
    version: '1.0',
    added_tokens: controls.map((content, n) => ({ id: tokens.length + n, content, special: true })),
    normalizer: options.nfc ? { type: 'NFC' } : null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: options.pattern ?? pattern }, behavior: 'Isolated', invert: false },
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: {
      type: 'BPE',
      ignore_merges: options.ignoreMerges ?? false,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges,
    },
  }
}
