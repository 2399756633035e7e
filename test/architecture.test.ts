// The shape of the source, held by a test: which room may import which, no cycles, no sideways imports between plug-ins,
// sizes, names, headers. The rules are also tried on files that break them, so that they are known to bite.
import { readFileSync, readdirSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

type Files = ReadonlyMap<string, string>

const leaves = ['engines', 'codecs', 'tokenizers', 'stores', 'safety', 'tools', 'access', 'observe']
/** What a leaf may know of the turn. */
const ports = /^src\/turn\/(ports|chain|tokens|weigh|arrivals|trace)\.ts$/
const below = ['protocol', 'turn', 'session', 'transports', ...leaves]
const floors: Readonly<Record<string, readonly string[]>> = {
  protocol: ['protocol'],
  turn: ['protocol', 'turn'],
  ...Object.fromEntries(leaves.map((room) => [room, ['protocol', 'turn', room]])),
  session: ['protocol', 'turn', 'session'],
  transports: ['protocol', 'turn', 'session', 'transports'],
  client: ['protocol', 'client'],
  top: ['top', ...below],
  // Benchmarks are clients and servers at once, and look into both.
  bench: ['bench', 'top', 'client', ...below],
  // A program also chooses where its log goes.
  cli: ['cli', 'bench', 'top', 'client', 'protocol', 'observe'],
}
const packages: Readonly<Record<string, readonly string[]>> = {
  protocol: ['zod'],
  turn: [],
  session: [],
  client: ['ws'],
}
/** Rooms with plug-ins: only registry.ts loads them, and only when they are asked for. */
const plugins = ['engines', 'codecs', 'tokenizers', 'stores', 'safety', 'tools']
const notPlugins = new Set(['src/engines/fleet.ts', 'src/engines/wire.ts'])
/** Loaded by the registry like plug-ins, and parts that plug-ins lean on; the template codec and its check know all formats. */
const parts = /^src\/(tokenizers\/|codecs\/(codec|detect|differ|match)\.ts)/
const knowsAll = /^src\/codecs\/(jinja|match)/
const banned = /(^|[/-])(utils?|helpers?|commons?|shared|managers?|services?|handlers?|base|core)([.-]|$)/

const roomOf = (file: string) => /^src\/([^/]+)\//.exec(file)?.[1] ?? 'top'
/** `engines/chat` for every file of that engine. */
const family = (file: string) => `${roomOf(file)}/${posix.basename(file).split(/[-.]/)[0]}`

type Import = { readonly from: string; readonly to: string; readonly kind: 'value' | 'type' | 'dynamic' }
const statement = /^\s*(?:import|export)\s+(type\s+)?(?:[^'";]*?\sfrom\s+)?'([^']+)'|\bimport\('([^']+)'\)/gm

/** `to` is a path in the tree, or the name of a package. */
function importsOf(file: string, text: string): Import[] {
  return [...text.matchAll(statement)].map(([, type, named, dynamic]) => {
    const to = named ?? dynamic ?? ''
    return {
      from: file,
      to: to.startsWith('.') ? posix.join(posix.dirname(file), to) : to,
      kind: dynamic !== undefined ? 'dynamic' : type !== undefined ? 'type' : 'value',
    }
  })
}

/** `plugged`: room and family of every plug-in; other files of a room are parts that its plug-ins may lean on. */
function wrongImport({ from, to, kind }: Import, plugged: ReadonlySet<string>): string | undefined {
  const room = roomOf(from)
  const edge = `${from} imports ${to}`
  if (!to.startsWith('src/')) {
    const allowed = packages[room]
    const foreign = !to.startsWith('node:') && allowed !== undefined && !allowed.includes(to.split('/')[0] ?? '')
    return foreign || to.startsWith('test/') ? `${edge}: not a package of this room` : undefined
  }
  const there = roomOf(to)
  if (!floors[room]?.includes(there)) return `${edge}: not below it`
  if (leaves.includes(room) && there === 'turn' && !ports.test(to)) return `${edge}: a leaf knows the ports only`
  if (leaves.includes(room) && family(from) !== family(to) && plugged.has(family(to)) && !knowsAll.test(from))
    return `${edge}: sideways`
  const loads = room === 'top' && plugins.includes(there) && !notPlugins.has(to)
  if (loads && kind !== 'type' && !(/^src\/registry(-codecs)?\.ts$/.test(from) && kind === 'dynamic'))
    return `${edge}: plug-ins are loaded by registry.ts, dynamically`
  return undefined
}

/** A cycle as its files, from the first file that is met again. */
function cycles(imports: readonly Import[]): string[] {
  const out: string[] = []
  const state = new Map<string, 'open' | 'done'>()
  const visit = (file: string, path: readonly string[]): void => {
    if (state.get(file) === 'open') out.push(`cycle: ${[...path.slice(path.indexOf(file)), file].join(' → ')}`)
    if (state.has(file)) return
    state.set(file, 'open')
    for (const { from, to } of imports) if (from === file && to.startsWith('src/')) visit(to, [...path, file])
    state.set(file, 'done')
  }
  for (const { from } of imports) visit(from, [])
  return out
}

const strip = (text: string) => text.replaceAll(/\/\*[^]*?\*\/|\/\/.*|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g, ' ')

function wrongFile(file: string, text: string): string[] {
  const out: string[] = []
  const header = /^(?:#!.*\n)?((?:\/\/.*\n)+|\/\*[^]*?\*\/)/.exec(text)?.[1]
  const lines = text.split('\n').length - 1
  // The names of tests say what a test file owns.
  if (header === undefined && !file.endsWith('.test.ts')) out.push(`${file}: no header comment that says what it owns`)
  if (banned.test(file)) out.push(`${file}: a name that says nothing`)
  if (file.startsWith('src/') && /[:<|&]\s*any\b|\bas any\b/.test(strip(text))) out.push(`${file}: any`)
  if (file.startsWith('src/')) {
    if (lines > 400 && !/long because/i.test(header ?? ''))
      out.push(`${file}: ${lines} lines, and no "Long because …" in its header`)
    if (lines > 600 && !file.startsWith('src/protocol/')) out.push(`${file}: ${lines} lines`)
  }
  return out
}

function complaints(files: Files): string[] {
  const imports = [...files]
    .filter(([file]) => file.startsWith('src/'))
    .flatMap(([file, text]) => importsOf(file, text))
  const plugged = new Set(
    imports
      .filter((i) => /^src\/registry(-codecs)?\.ts$/.test(i.from) && i.kind === 'dynamic' && !parts.test(i.to))
      .map((i) => family(i.to)),
  )
  return [
    ...imports.flatMap((edge) => wrongImport(edge, plugged) ?? []),
    ...cycles(imports),
    ...[...files].flatMap(([file, text]) => wrongFile(file, text)),
  ]
}

const root = fileURLToPath(new URL('..', import.meta.url))
const tree: Files = new Map(
  ['src', 'test', 'scripts', 'bench'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((name) => posix.join(folder, name.replaceAll('\\', '/')))
      .filter((file) => /\.(ts|mjs)$/.test(file) && !/(^|\/)node_modules\/|\.d\.ts$/.test(file))
      .map((file) => [file, readFileSync(join(root, file), 'utf8')] as const),
  ),
)

describe('the source tree', () => {
  it('is there to be looked at', () => {
    expect(tree.size).toBeGreaterThan(30)
    expect([...tree].flatMap(([file, text]) => importsOf(file, text)).length).toBeGreaterThan(60)
  })
  it('keeps its floors, its sizes and its names', () => {
    expect(complaints(tree)).toEqual([])
  })
})

const registry = [
  'src/registry.ts',
  "// Loads.\nawait import('./engines/b.ts')\nawait import('./engines/chat.ts')\n",
] as const

describe('the rules refuse', () => {
  const broken: readonly (readonly [string, string, string, string])[] = [
    ['an import from a floor above', 'src/turn/a.ts', "import { b } from '../session/b.ts'", 'not below it'],
    ['the same for types', 'src/turn/a.ts', "import type { B } from '../session/b.ts'", 'not below it'],
    [
      'the same in a list over several lines',
      'src/turn/a.ts',
      "import {\n  b,\n} from '../session/b.ts'",
      'not below it',
    ],
    ['a re-export from above', 'src/protocol/a.ts', "export * from '../turn/b.ts'", 'not below it'],
    ['a package in protocol/', 'src/protocol/a.ts', "import { pino } from 'pino'", 'not a package of this room'],
    ['client/ knowing the server', 'src/client/a.ts', "import { b } from '../turn/ports.ts'", 'not below it'],
    ['a leaf knowing the turn itself', 'src/engines/a.ts', "import { b } from '../turn/run.ts'", 'ports only'],
    ['a leaf knowing another room', 'src/stores/a.ts', "import { b } from '../engines/wire.ts'", 'not below it'],
    ['a plug-in knowing its neighbour', 'src/engines/a.ts', "import { b } from './b.ts'", 'sideways'],
    ['a plug-in knowing a part of its neighbour', 'src/engines/a.ts', "import { b } from './b-parts.ts'", 'sideways'],
    ['a plug-in loaded outside the registry', 'src/app.ts', "await import('./engines/chat.ts')", 'registry.ts'],
    ['a plug-in loaded at start', 'src/registry.ts', "import { b } from './engines/chat.ts'", 'registry.ts'],
    ['any', 'src/turn/a.ts', 'let a: any', 'any'],
    ['a name that says nothing', 'src/turn/json-utils.ts', '', 'says nothing'],
    ['a long file without a reason', 'src/turn/a.ts', '\n'.repeat(401), 'Long because'],
    ['a very long file', 'src/turn/a.ts', `// Long because.${'\n'.repeat(601)}`, '603 lines'],
  ]
  it.each(broken)('%s', (_, file, text, complaint) => {
    const found = complaints(new Map([registry, [file, `// Owns nothing.\n${text}\n`]]))
    expect(found.join('\n')).toContain(complaint)
  })
  it('a cycle, even of types only', () => {
    const a = "// A.\nimport type { B } from './b.ts'\n"
    const b = "// B.\nimport { a } from './a.ts'\n"
    expect(
      complaints(
        new Map([
          ['src/turn/a.ts', a],
          ['src/turn/b.ts', b],
        ]),
      ),
    ).toEqual(['cycle: src/turn/a.ts → src/turn/b.ts → src/turn/a.ts'])
  })
  it('a file without a header', () => {
    expect(complaints(new Map([['src/turn/a.ts', 'export {}\n']]))).toHaveLength(1)
  })
  it('nothing in a file that keeps to them', () => {
    const text =
      "// Owns a.\nimport { z } from 'zod'\nimport type { B } from './chat-b.ts'\nimport { w } from './wire.ts'\nconst s = 'as any'\n"
    expect(complaints(new Map([registry, ['src/engines/chat.ts', text]]))).toEqual([])
  })
})
