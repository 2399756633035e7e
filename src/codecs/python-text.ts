// Text as Python's string methods see it, where they differ from JavaScript's.

const blank = (char: string): boolean => {
  const code = char.charCodeAt(0)
  return (code >= 0x1c && code <= 0x1f) || code === 0x85 || (code !== 0xfeff && /\s/.test(char))
}

/** `str.strip()`: takes U+0085 and U+001C to U+001F and leaves U+FEFF, unlike `trim`. */
export function stripped(text: string): string {
  let from = 0
  let to = text.length
  while (from < to && blank(text.charAt(from))) from++
  while (to > from && blank(text.charAt(to - 1))) to--
  return text.slice(from, to)
}

/** `str()` of a value that came as JSON: `True`, `None`, `['a', 'b']`. */
export function pythonText(value: unknown): string {
  return typeof value === 'string' ? value : repr(value)
}
function repr(value: unknown): string {
  if (value === null || value === undefined) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (Array.isArray(value)) return `[${value.map(repr).join(', ')}]`
  if (typeof value === 'object')
    return `{${Object.entries(value)
      .map(([key, v]) => `${repr(key)}: ${repr(v)}`)
      .join(', ')}}`
  if (typeof value === 'number') return JSON.stringify(value).replace(/e([+-])(\d)$/, 'e$10$2')
  const text = String(value).replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text.replaceAll("'", "\\'")}'`
}
