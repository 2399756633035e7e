// JSON as chat templates print it: Python's json.dumps with ensure_ascii=False, which puts a space behind ':' and ','.

/** Keys keep their order. Numbers are printed as JavaScript knows them: what came as `1.0` is `1`. */
export function pythonJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    const fields = Object.entries(value).filter(([, v]) => v !== undefined)
    return `{${fields.map(([key, v]) => `${text(key)}: ${pythonJson(v)}`).join(', ')}}`
  }
  if (typeof value === 'string') return text(value)
  if (typeof value === 'number') return number(value)
  return value === undefined ? 'null' : JSON.stringify(value)
}
/** With `indent=4`: every part on a line of its own, and no space behind ','. */
export function pythonJsonLines(value: unknown, margin = ''): string {
  const inner = `${margin}    `
  const lines = (parts: string[], [open, close]: readonly [string, string]): string =>
    parts.length === 0 ? open + close : `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${margin}${close}`
  if (Array.isArray(value))
    return lines(
      value.map((v) => pythonJsonLines(v, inner)),
      ['[', ']'],
    )
  if (typeof value !== 'object' || value === null) return pythonJson(value)
  const fields = Object.entries(value).filter(([, v]) => v !== undefined)
  return lines(
    fields.map(([key, v]) => `${text(key)}: ${pythonJsonLines(v, inner)}`),
    ['{', '}'],
  )
}
/** JavaScript escapes lone surrogates, which Python prints: neither can be encoded, so the escape stays. Both leave DEL and U+2028 alone. */
const text = (value: string): string => JSON.stringify(value)
/** Python's exponents have two digits at least: `1e-07`. */
const number = (value: number): string => JSON.stringify(value).replace(/e([+-])(\d)$/, 'e$10$2')
