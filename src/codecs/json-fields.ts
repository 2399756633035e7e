// The members of a JSON object as they stand in its text, for formats that write each argument in a tag of its own: what a
// model wrote as 1.0 stays 1.0.

/** `value`: JSON text. */
export type Field = { readonly name: string; readonly value: string }

const string = /"(?:[^"\\]|\\.)*"/y

/** Undefined for text that is no JSON object. */
export function fieldsOf(json: string): Field[] | undefined {
  if (!isObject(json)) return undefined
  // From here on it is known to be an object.
  const fields: Field[] = []
  let at = json.indexOf('{') + 1
  for (;;) {
    at = behindSpace(json, at)
    if (json[at] === ',') at = behindSpace(json, at + 1)
    if (json[at] !== '"') return fields
    const nameEnds = behindString(json, at)
    const name = String(JSON.parse(json.slice(at, nameEnds)))
    const from = behindSpace(json, json.indexOf(':', nameEnds) + 1)
    at = behindValue(json, from)
    fields.push({ name, value: json.slice(from, at).trimEnd() })
  }
}

function isObject(json: string): boolean {
  try {
    const value: unknown = JSON.parse(json)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
function behindSpace(json: string, from: number): number {
  let at = from
  while (at < json.length && json.charCodeAt(at) <= 0x20) at++
  return at
}
function behindString(json: string, from: number): number {
  string.lastIndex = from
  return string.test(json) ? string.lastIndex : json.length
}
/** Up to the comma or brace that ends it. */
function behindValue(json: string, from: number): number {
  let depth = 0
  for (let at = from; at < json.length; at++) {
    const c = json[at]
    if (c === '"') at = behindString(json, at) - 1
    else if (c === '{' || c === '[') depth++
    else if (depth > 0 && (c === '}' || c === ']')) depth--
    else if (depth === 0 && (c === '}' || c === ',')) return at
  }
  return json.length
}
