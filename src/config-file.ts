// The configuration file: found, read, and remembered well enough to say on which line something stands.
import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { LineCounter, parseDocument, isMap, isScalar, type Document } from 'yaml'
import { ConfigError, type Path, type Problem } from './config-error.ts'
import { settings } from './config-schema.ts'

const longestFile = 4 * 1024 * 1024
export const defaultFile = 'continuo.yaml'
/** A map of settings as YAML gives it. */
export type Tree = Record<string, unknown>
/** `at`: where in the file a path, or the deepest part of it that is there, stands. */
export type ConfigFile = { readonly path: string | undefined; readonly tree: Tree; at(path: Path): string | undefined }

/** Reads `named`, else `continuo.yaml` if there is one. Throws ConfigError. */
export function readFile(named: string | undefined, cwd: string): ConfigFile {
  const shown = named ?? defaultFile
  const path = resolve(cwd, shown)
  const fail = (message: string, where = shown): never => {
    throw new ConfigError([{ path: [], where, message }])
  }
  let text = ''
  try {
    if (statSync(path).size > longestFile) fail('the file is over 4 MiB, which no configuration is')
    text = readFileSync(path, 'utf8')
  } catch (e) {
    if (e instanceof ConfigError) throw e
    const code = e instanceof Error && 'code' in e ? String(e.code) : String(e)
    if (code === 'ENOENT' && named === undefined) return { path: undefined, tree: {}, at: () => undefined }
    return fail(
      code === 'ENOENT'
        ? 'there is no such file; check --config and CONTINUO_CONFIG'
        : `the file cannot be read (${code})`,
    )
  }
  const lines = new LineCounter()
  const doc = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const bad = doc.errors[0]
  if (bad) return fail(`this is no valid YAML: ${bad.message}`, `${shown}:${lines.linePos(bad.pos[0]).line}`)
  const tree = plain(doc) ?? fail('the file uses aliases (`*name`) that lead nowhere or grow without end; write it out')
  if (!isTree(tree)) return fail('the file must be a map of settings, such as `port: 8787`')
  dropEmpty(tree)
  const at = (wanted: Path) => {
    const offset = offsetOf(doc, wanted)
    return offset === undefined ? undefined : `${shown}:${lines.linePos(offset).line}`
  }
  return { path, tree, at }
}

/** The values of a document, `{}` for an empty one; undefined where its aliases cannot be followed. */
function plain(doc: Document): unknown {
  try {
    return doc.toJS({ maxAliasCount: 100 }) ?? {}
  } catch {
    return undefined
  }
}

/** Where the deepest part of a path that the file has begins: at its key. */
function offsetOf(doc: Document, path: Path): number | undefined {
  for (let depth = path.length; depth > 0; depth--) {
    const parent: unknown = depth === 1 ? doc.contents : doc.getIn(path.slice(0, depth - 1), true)
    const last = path[depth - 1]
    const key = isMap(parent)
      ? parent.items.find((p) => isScalar(p.key) && String(p.key.value) === String(last))?.key
      : undefined
    const node: unknown = key ?? doc.getIn(path.slice(0, depth), true)
    if (typeof node === 'object' && node !== null && 'range' in node && Array.isArray(node.range))
      return Number(node.range[0])
  }
  return undefined
}

export function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
export function read(tree: Tree, path: readonly string[]): unknown {
  let at: unknown = tree
  for (const key of path) at = isTree(at) && Object.hasOwn(at, key) ? at[key] : undefined
  return at
}
/** `limits:` with nothing behind it is null in YAML and means: nothing said. */
function dropEmpty(tree: Tree): void {
  for (const { path } of settings)
    for (let depth = 1; depth <= path.length; depth++) {
      const parent = read(tree, path.slice(0, depth - 1))
      const key = path[depth - 1] ?? ''
      if (isTree(parent) && parent[key] === null) delete parent[key]
    }
}
/** Sets a value inside; a problem where the file has something else than a map on the way. */
export function put(tree: Tree, path: readonly string[], value: unknown, where: string): Problem[] {
  let at = tree
  for (const key of path.slice(0, -1)) {
    const next = (at[key] ??= {})
    if (!isTree(next))
      return [{ path, where, message: `\`${key}\` in the file is no map, so nothing inside it can be set` }]
    at = next
  }
  at[path.at(-1) ?? ''] = value
  return []
}
