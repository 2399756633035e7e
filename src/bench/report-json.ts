// A report as one JSON object, `{...ratios, command, machine, options, targets, tables, plots, notes}`, and back. What is no
// number (NaN, an infinity) is null there, as JSON has it, and NaN again where it is read.
import { z } from 'zod'
import type { Report } from './report.ts'

/** What a ratio may not be called, since it stands beside them. */
const keys = ['title', 'command', 'machine', 'options', 'targets', 'tables', 'plots', 'notes'] as const
const named = new Set<string>(keys)
const ratioName = /^[A-Za-z][A-Za-z0-9_]*$/

/** With short lists and spreads on one line each, so that a saved result can be read and compared line by line. */
export function reportJson(report: Report): string {
  return `${JSON.stringify(reportObject(report), undefined, 2).replaceAll(/[[{]\n[^[\]{}]*\n\s*[\]}]/g, oneLine)}\n`
}
/** A string holds no line end in JSON, so every one in `block` is layout. */
function oneLine(block: string): string {
  const line = block.replaceAll(/\n\s*/g, ' ')
  const tight = line.startsWith('[') ? `[${line.slice(2, -2)}]` : line
  return tight.length <= 120 || /^\[[-+\d.e, nul]*\]$/.test(tight) ? tight : block
}

/** Throws a RangeError for a ratio that would stand for something else. */
export function reportObject({ ratios, ...rest }: Report): Record<string, unknown> {
  const bad = Object.keys(ratios).find((name) => named.has(name) || !ratioName.test(name))
  if (bad !== undefined)
    throw new RangeError(
      `A ratio cannot be called ${JSON.stringify(bad)}: letters, digits and _, and none of ${keys.join(', ')}.`,
    )
  return {
    ...ratios,
    ...Object.fromEntries(keys.filter((key) => rest[key] !== undefined).map((key) => [key, rest[key]])),
  }
}

const number = z
  .number()
  .nullable()
  .transform((n) => n ?? NaN)
const spread = z.strictObject({ median: number, min: number, max: number })
const values = z.array(z.number().nullable())
const axis = { label: z.string(), log: z.boolean().exactOptional() }
const shape = z.strictObject({
  title: z.string().exactOptional(),
  command: z.string(),
  machine: z.strictObject({
    continuo: z.string(),
    node: z.string(),
    system: z.string(),
    cpu: z.string(),
    cores: number,
    memoryGiB: number,
    load: z.string(),
    date: z.string(),
  }),
  options: z.record(z.string(), z.unknown()),
  targets: z.array(
    z.strictObject({
      ratio: z.string(),
      what: z.string(),
      atMost: z.number().exactOptional(),
      atLeast: z.number().exactOptional(),
    }),
  ),
  tables: z.array(
    z.strictObject({
      title: z.string(),
      note: z.string().exactOptional(),
      head: z.array(z.string()),
      rows: z.array(z.array(z.union([z.string(), number, spread]))),
    }),
  ),
  plots: z.array(
    z.strictObject({
      title: z.string(),
      note: z.string().exactOptional(),
      kind: z.enum(['lines', 'bars']),
      x: z.strictObject({ ...axis, values: z.array(number), names: z.array(z.string()).exactOptional() }),
      y: z.strictObject(axis),
      series: z.array(
        z.strictObject({ name: z.string(), values, low: values.exactOptional(), high: values.exactOptional() }),
      ),
    }),
  ),
  notes: z.array(z.string()),
})

/** `name` is what the text was read from. Throws an Error that says what is wrong with it. */
export function readReport(text: string, name: string): Report {
  const wrong = (why: string): Error =>
    new Error(
      `${name} is no saved result of continuo bench: ${why}. Save one with \`continuo bench loop --save ${name}\`.`,
    )
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (e) {
    throw wrong(e instanceof Error ? e.message : String(e))
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong('it is not a JSON object')
  const entries = Object.entries(value)
  const rest = shape.safeParse(Object.fromEntries(entries.filter(([key]) => named.has(key))))
  if (!rest.success) throw wrong(complaint(rest.error))
  const ratios: Record<string, Report['ratios'][string]> = {}
  for (const [key, given] of entries.filter(([key]) => !named.has(key))) {
    const ratio = spread.safeParse(given)
    if (!ratio.success || !ratioName.test(key))
      throw wrong(`${JSON.stringify(key)} is neither a ratio {median, min, max} nor one of ${keys.join(', ')}`)
    ratios[key] = ratio.data
  }
  return { ...rest.data, ratios }
}
function complaint({ issues: [first] }: z.ZodError): string {
  return first ? `${first.path.join('.') || 'the object'}: ${first.message}` : 'it has another shape'
}
